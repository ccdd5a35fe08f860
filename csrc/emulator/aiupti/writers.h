// The writers of all threads, and what the calling thread knows of itself.
//
// A thread gets a writer with its first record and keeps it; when the thread ends, the next one that needs a writer
// takes it over, half-full chunk and all. Writers are never freed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "emulated_aiupti/record_writer.h"
#include "emulated_aiupti/shape.h"

namespace kineto_spyre::emulator {

struct Writer {
  explicit Writer(bool asymmetric);
  RecordWriter records;
  Shape shape;                    // the owner's: of what it writes
  std::atomic<bool> taken{true};  // acquire when a thread takes it over, release when a thread ends
  Writer* next = nullptr;
};

// In the static TLS block, where reading it is one instruction; so it has no destructor, and the writer goes back
// through one that is made with it.
struct ThreadState {
  Writer* writer = nullptr;
  uint32_t pid = 0, tid = 0;  // both would be system calls
};
extern constinit thread_local ThreadState t_self __attribute__((tls_model("initial-exec")));

class Writers {
 public:
  // The calling thread's; null if there is no memory.
  Writer* mine() {
    if (t_self.writer != nullptr) [[likely]]
      return t_self.writer;
    return find_or_make();
  }
  // Stages what every writer has written so far. One caller at a time: the flush.
  void collect();
  // Of a buffer that a thread has of its own (buffer_per_thread).
  Shape shape_of(const uint8_t* buffer);

  // Both are the RecordWriter's source.
  static bool lend(Buffer* buffer);
  static void give_back(const Buffer& buffer, size_t valid);

 private:
  Writer* find_or_make();

  std::atomic<Writer*> first_{nullptr};  // a list that only grows. Release: the loops' acquire
  const bool asymmetric_ = ProcessBarrier::available();
  std::mutex shapes_mutex_;
  std::unordered_map<const uint8_t*, Shape> shapes_;
};

void know_thread();             // fills in t_self.pid and tid
void forget_thread() noexcept;  // in the child of a fork

}  // namespace kineto_spyre::emulator
