// What a request gets when there is no buffer for it: the budget is used up, or there is no session. No client of
// libaiupti ever returns null, so what the library would do then is not known; it gets memory that is thrown away.
//
// A few buffers, static (one object a process), so that there is nothing that can fail. What comes back in one is
// dropped, but not unseen: it waits until count() has counted its records and only then is lent again.
//
//              lend()             complete(): libaiupti's thread            count(): one thread at a time
//      free ------------> lent ------------------------------> claimed, returned ------------> free
//
// If all of them are lent or wait, a request gets one more, the sink: one piece of memory for any number of borrowers
// at once. Nobody reads it, so what comes back in it is counted as one buffer with an unknown number of records.
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
      // Acquire: partner is the release in count(), so that a new borrower's writes come after what count() read.
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

  // A buffer comes back. True if it was the sink, whose records nobody can count.
  bool complete(uint8_t* buffer, size_t valid) noexcept {
    if (is_sink(buffer)) return valid != 0;
    Descriptor& mine = descriptors_[index_of(buffer)];
    uint32_t expected = kLent;
    // Relaxed: the claim makes it ours among those that complete it; the store below publishes.
    if (!mine.state.compare_exchange_strong(expected, kClaimed, std::memory_order_relaxed, std::memory_order_relaxed)) {
      return false;  // a second time
    }
    mine.valid = valid < kBytes ? valid : kBytes;
    // Release: the records and their number; partner is the acquire in count().
    mine.state.store(mine.valid != 0 ? kReturned : kFree, std::memory_order_release);
    return false;
  }

  // The sum of records(data, valid) over what has come back since the last call.
  template <class Records>
  uint64_t count(Records records) noexcept {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBuffers; ++i) {
      Descriptor& mine = descriptors_[i];
      // Acquire: partner is the release in complete().
      if (mine.state.load(std::memory_order_acquire) != kReturned) continue;
      sum += records(memory_[i].data(), mine.valid);
      mine.state.store(kFree, std::memory_order_release);  // partner: the acquire in lend()
    }
    return sum;
  }

  // In a forked child, where only the calling thread is.
  void forget_after_fork() noexcept {
    for (Descriptor& each : descriptors_) each.state.store(kFree, std::memory_order_relaxed);
  }

 private:
  enum State : uint32_t { kFree, kLent, kClaimed, kReturned };
  struct Descriptor {
    std::atomic<uint32_t> state{kFree};
    size_t valid = 0;
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
