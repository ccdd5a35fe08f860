// A lock-free stack of indices: the free lists of this room (buffers, blocks of op events, threads' slots).
//
// The elements live in an array of the owner; an element that is on the stack has its successor in a 32-bit atomic that
// the owner keeps beside it. The head is one 64-bit word:
//
//     63            32 31             0
//    [ number of pops | index + 1, or 0 ]
//
// A pop reads the head, then the successor of the element on top, then swaps the head. Were that element taken and put
// back in between (ABA), the successor would be stale: the count of pops, which every pop raises, makes the swap fail.
// A pop would have to sleep through exactly 2^32 others to be fooled.
//
// Any number of threads push and pop. No operation waits for another: when one fails to swap, another one has
// succeeded.
#pragma once

#include <atomic>
#include <cstdint>

namespace kineto_spyre::capture {

class IndexStack {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // successor(i) is a std::atomic<uint32_t>& for element i.
  template <class Successor>
  void push(uint32_t index, Successor successor) noexcept {
    uint64_t head = head_.load(std::memory_order_relaxed);
    uint64_t desired;
    do {
      successor(index).store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      desired = (head & kPops) | (index + 1);
      // Release: what the pusher did to the element; partner is the acquire in pop. Later swaps of the head are
      // read-modify-writes and so continue this release, however deep the element lies when it is popped.
    } while (!head_.compare_exchange_weak(head, desired, std::memory_order_release, std::memory_order_relaxed));
  }

  // kNone if the stack is empty.
  template <class Successor>
  uint32_t pop(Successor successor) noexcept {
    // Acquire: partner is the release in push; the successor that is read next was written before it.
    uint64_t head = head_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(head) != 0) {
      const uint32_t index = static_cast<uint32_t>(head) - 1;
      const uint64_t desired = ((head & kPops) + kOnePop) | successor(index).load(std::memory_order_relaxed);
      // Acquire in both cases, as above.
      if (head_.compare_exchange_weak(head, desired, std::memory_order_acquire, std::memory_order_acquire))
        return index;
    }
    return kNone;
  }

  // Only while nobody else uses the stack.
  void clear() noexcept { head_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kOnePop = uint64_t{1} << 32;
  static constexpr uint64_t kPops = ~(kOnePop - 1);
  std::atomic<uint64_t> head_{0};
};

static_assert(ATOMIC_LLONG_LOCK_FREE == 2);

}  // namespace kineto_spyre::capture
