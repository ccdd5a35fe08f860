// The thread ("aiupti") that gives buffers back.
//
//   not started -> start(), by the first enable -> looks each kLookNs while anything is enabled, or held back -> sleeps
//
// So no writer ever wakes a thread. A flush asks for a round and waits for its end. The thread is never joined: it ends
// with the process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kineto_spyre::emulator {

class CompletionThread {
 public:
  // Starts it, or wakes it.
  void start();
  // Returns when everything that was staged before is filled, and the current buffer completed.
  void flush();

 private:
  void loop();

  std::mutex mutex_;  // guards what follows; not held while the filler works
  std::condition_variable wake_, done_;
  uint64_t rounds_wanted_ = 0, rounds_done_ = 0;
  bool started_ = false;
};

}  // namespace kineto_spyre::emulator
