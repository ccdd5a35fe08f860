// From the staged chunks into the client's buffers, and back to the client.
//
//   staged chunk -> current buffer -> full, or flushed -> [held back, by a fault] -> the client's completion
//
// Runs on the completion thread; on a writing thread that found no chunk because the completion thread is far behind.
// The mutex makes it one at a time, also while the client's callbacks run.
//
// With all kinds disabled nothing is filled but by a flush: so, when all are disabled and a flush has returned, no
// buffer is out, but for completions that a fault holds back and for the one that rotate_at_flush requested.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "emulated_aiupti/current_buffer.h"
#include "emulated_aiupti/staging.h"

namespace kineto_spyre::emulator {

class Filler {
 public:
  Filler();

  // True: completions are held back, so somebody has to look again.
  bool fill(bool flushing);
  // Throws away what was recorded of a kind and is not completed.
  void discard(uint8_t kind);
  // Waits for a callback that is under way; none comes afterwards.
  void close();

 private:
  struct Held {
    Buffer buffer;
    size_t valid;
    uint64_t completed_ns;
  };

  static void complete(const Buffer& buffer, size_t valid, Shape shape);
  void take_staged(const uint8_t* without);
  void release_held(bool flushing);

  std::mutex mutex_;  // guards what follows
  CurrentBuffer current_;
  std::vector<Held> held_;
};

}  // namespace kineto_spyre::emulator
