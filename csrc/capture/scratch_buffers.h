// What a request gets when there is no buffer for it: the budget is used up, or there is no session. No client of
// libaiupti ever returns null, so what the library would do then is not known; it gets memory that is thrown away.
//
// A few buffers, static (one object a process), so that there is nothing that can fail. What comes back in one is
// dropped, but not unseen: its records are counted within the completion, where clients of libaiupti iterate over their
// buffers too. So it is lent again at once, and nothing waits.
//
//              lend()             complete(): libaiupti's thread
//      free ------------> lent ------------------------------> claimed: counted ----> free
//
// If all of them are lent, a request gets one more, the sink: one piece of memory for any number of borrowers at once.
// Nobody reads it, so what comes back in it is counted as one buffer with an unknown number of records.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kineto_spyre::capture {

class ScratchBuffers {
 public:
#ifdef KINETO_SPYRE_SCRATCH_BUFFERS  // for the model checker
  static constexpr size_t kBytes = 8;
  static constexpr size_t kBuffers = KINETO_SPYRE_SCRATCH_BUFFERS;
#else
  static constexpr size_t kBytes = size_t{1} << 20;  // one buffer
  static constexpr size_t kBuffers = 8;
#endif

  // Never null.
  uint8_t* lend() noexcept {
    for (size_t i = 0; i < kBuffers; ++i) {
      uint32_t expected = kFree;
      // Acquire: partner is the release in complete(), so that a new borrower's writes come after what was counted.
      if (descriptors_[i].state.load(std::memory_order_relaxed) == kFree &&
          descriptors_[i].state.compare_exchange_strong(expected, kLent, std::memory_order_acquire,
                                                        std::memory_order_relaxed)) {
        return memory_[i].data();
      }
    }
    return sink_.data();
  }

  bool contains(const void* address) const noexcept { return is_sink(address) || index_of(address) != kBuffers; }

  // Whether this is the one memory that several may have.
  bool is_sink(const void* address) const noexcept { return address == sink_.data(); }

  struct Dropped {
    uint64_t records = 0;
    bool uncounted = false;  // it was the sink, whose records nobody can count
  };

  // A buffer comes back. records(data, valid): how many are in it; called for a buffer that is the caller's alone.
  template <class Records>
  Dropped complete(uint8_t* buffer, size_t valid, Records records) noexcept {
    if (is_sink(buffer)) return {0, valid != 0};
    Descriptor& mine = descriptors_[index_of(buffer)];
    uint32_t expected = kLent;
    // Relaxed: the borrower's writes are this thread's, or libaiupti brought them to it.
    if (!mine.state.compare_exchange_strong(expected, kClaimed, std::memory_order_relaxed, std::memory_order_relaxed)) {
      return {};  // a second time
    }
    const uint64_t found = valid != 0 ? records(buffer, valid < kBytes ? valid : kBytes) : 0;
    mine.state.store(kFree, std::memory_order_release);  // partner: the acquire in lend()
    return {found, false};
  }

  // In a forked child, where only the calling thread is.
  void forget_after_fork() noexcept {
    for (Descriptor& each : descriptors_) each.state.store(kFree, std::memory_order_relaxed);
  }

 private:
  enum State : uint32_t { kFree, kLent, kClaimed };
  struct Descriptor {
    std::atomic<uint32_t> state{kFree};
  };
  using Memory = std::array<uint8_t, kBytes>;

  size_t index_of(const void* address) const noexcept {
    for (size_t i = 0; i < kBuffers; ++i) {
      if (address == memory_[i].data()) return i;
    }
    return kBuffers;
  }

  std::array<Descriptor, kBuffers> descriptors_;
  alignas(4096) static inline std::array<Memory, kBuffers> memory_;
  alignas(4096) static inline Memory sink_;
};

}  // namespace kineto_spyre::capture
