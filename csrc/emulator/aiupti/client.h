// The client's two callbacks: asking for a buffer, giving one back; with the faults that concern either.
//
// They carry no context, so there is one client a process. While a thread runs a completion, in_callback() is true on
// it: the client may call the library then, and what would wait for that very thread does nothing.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <atomic>
#include <cstdint>

#include "emulated_aiupti/record_writer.h"

namespace kineto_spyre::emulator {

class Client {
 public:
  void set(AIUpti_BuffersCallbackRequestFunc request, AIUpti_BuffersCallbackCompleteFunc complete);

  // False: there is no buffer. Any thread that writes records, or fills buffers.
  bool request(Buffer* buffer);
  // One at a time, but for buffers that a thread has of its own.
  void complete(const Buffer& buffer, size_t valid);

  void count_anew() { requested_.store(0, std::memory_order_relaxed); }  // for buffer_limit: a flush was done
  void close() { closed_.store(true, std::memory_order_relaxed); }       // the process ends: no more callbacks
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  static bool in_callback();

 private:
  // Release in set(); acquire where they are called.
  std::atomic<AIUpti_BuffersCallbackRequestFunc> request_{nullptr};
  std::atomic<AIUpti_BuffersCallbackCompleteFunc> complete_{nullptr};
  std::atomic<bool> closed_{false};     // relaxed: the filler's mutex orders it
  std::atomic<uint64_t> requested_{0};  // since the last flush. Relaxed: a count
};

}  // namespace kineto_spyre::emulator
