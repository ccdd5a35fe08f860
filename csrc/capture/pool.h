// The buffers that libaiupti fills.
//
// Memory map. The records' reserve is cut into buffers of equal size as they are asked for. Each buffer is a whole
// number of granules of 4 KiB, and each granule has a cell in a second reserve; the cell of a buffer's first granule is
// the buffer's descriptor, so an address finds its descriptor by a subtraction and a shift.
//
//    records  | buffer 0            | buffer 1                | buffer 2 ...            |
//    granules |  0 |  1 | ..  |  63 | 64 |  ..                |
//    cells    |[D] |    |     |     |[D] |                    |       D: state, size, valid, successor
//
// A buffer that comes back with few records in it (a flush) is cut after them: the rest is a new buffer, if that is
// worth it. So a flush costs the granules that it filled, not a whole buffer.
//
// States of a descriptor, and who owns the edge:
//
//                 lend(): pop from free_, or reserve              complete(): the thread of libaiupti
//    (fresh or free) ----------------------------------> lent -----------------------------------------> returned
//          ^                                               |                                                |
//          |              complete() with nothing in it    |                                                |
//          +-----------------------------------------------+                                                |
//          |                                     recycle(): whoever took it by take_returned()              |
//          +------------------------------------------------------------------------------------------------+
//
// lent -> anything is a compare-and-swap: of two completions of one buffer one is rejected, as is the completion of an
// address that was never lent. Whoever moves a descriptor into a state owns its plain fields until the next list makes
// them somebody else's: free_ (a stack, see index_stack.h) or returned_.
//
// returned_ is a list that many threads push to and one reader empties at once, with one exchange. It can't fill up,
// since each buffer is on it at most once; it has no ABA, since nothing but everything is ever taken from it. What can
// run out is buffers, and then lend() says so: the newest records are dropped, and whoever asked counts them.
//
// No function on the way of a record allocates, locks, waits for another thread or calls the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "capture/capture.h"
#include "capture/index_stack.h"
#include "capture/prefaulted_region.h"

namespace kineto_spyre::capture {

class Pool {
 private:
  enum State : uint32_t { kFree, kLent, kReturned };
  struct Cell {
    std::atomic<uint32_t> successor;  // on free_ or returned_: index + 1 of the next, 0 at the end
    std::atomic<uint32_t> state;
    uint32_t size;   // bytes
    uint32_t valid;  // bytes, once it is returned
  };
  static_assert(sizeof(Cell) == 16 && std::is_trivially_destructible_v<Cell>);
  static_assert(ATOMIC_INT_LOCK_FREE == 2);

  // The reserve's zeroed bytes are cells: free, of size 0, on no list.
  Buffer* index() const noexcept { return reinterpret_cast<Buffer*>(index_.data()); }
  Cell& cell(uint32_t index) const noexcept { return reinterpret_cast<Cell*>(cells_.data())[index]; }
  uint8_t* data(uint32_t index) const noexcept { return records_.data() + size_t{index} * kGranule; }
  auto successors() const noexcept {
    return [this](uint32_t index) -> std::atomic<uint32_t>& { return cell(index).successor; };
  }
  static size_t granules(size_t bytes) noexcept { return (bytes + kGranule - 1) / kGranule; }

 public:
  static constexpr size_t kGranule = 4096;  // no page size: it only has to divide memory finely
  static constexpr size_t kWorthLending =
      size_t{16} * 1024;  // a rest that is smaller stays with the buffer that it's cut from

  // False, with a sentence in *error, if there is no address space. budget_bytes: all buffers together.
  bool map(size_t budget_bytes, size_t buffer_bytes, std::string* error);

  // A buffer to write to; its data is null if there is none.
  Buffer lend() noexcept {
    uint32_t index = free_.pop(successors());
    if (index == IndexStack::kNone) {
      const size_t offset = records_.take();
      if (offset == PrefaultedRegion::kEnd) return {nullptr, 0, 0};
      index = static_cast<uint32_t>(offset / kGranule);
      cell(index).size = static_cast<uint32_t>(buffer_bytes_);
    }
    Cell& lent = cell(index);
    // Release: size; partner is the acquire in claim().
    lent.state.store(kLent, std::memory_order_release);
    return {data(index), lent.size, 0};
  }

  enum class Completion { kTaken, kOversized, kUnknown };
  // A buffer comes back with `valid` bytes in it. kOversized: taken up to its size.
  Completion complete(uint8_t* buffer, size_t valid) noexcept {
    const uint32_t index = claim(buffer);
    if (index == IndexStack::kNone) return Completion::kUnknown;
    Cell& mine = cell(index);
    const bool oversized = valid > mine.size;
    mine.valid = oversized ? mine.size : static_cast<uint32_t>(valid);
    if (mine.valid == 0) {
      recycle(index);
      return Completion::kTaken;
    }
    cut_off_rest(index);
    push_returned(index);
    return oversized ? Completion::kOversized : Completion::kTaken;
  }

  // Calls visit(index, Buffer) for each buffer that was completed since the last call, in the order of completion. One
  // thread at a time. The visitor may recycle() the buffer.
  template <class Visitor>
  void take_returned(Visitor visit) noexcept {
    // Acquire: partner is the release in push_returned().
    uint32_t newest = returned_.exchange(0, std::memory_order_acquire);
    uint32_t oldest = 0;  // turn the list round
    while (newest != 0) {
      const uint32_t before = cell(newest - 1).successor.load(std::memory_order_relaxed);
      cell(newest - 1).successor.store(oldest, std::memory_order_relaxed);
      oldest = newest;
      newest = before;
    }
    while (oldest != 0) {
      const uint32_t index = oldest - 1;
      oldest = cell(index).successor.load(std::memory_order_relaxed);
      visit(index, Buffer{data(index), cell(index).size, cell(index).valid});
    }
  }

  // A buffer that was taken may be lent again; its records are gone.
  void recycle(uint32_t index) noexcept {
    // Relaxed: the push releases it.
    cell(index).state.store(kFree, std::memory_order_relaxed);
    free_.push(index, successors());
  }

  bool contains(const void* address) const noexcept { return records_.contains(address); }

  // For the helper thread.
  void touch_ahead(size_t bytes) noexcept;

  // The end of a session: nobody calls anything above any more. Gives back the memory that holds no records, except
  // buffers that are still lent: their borrower may write to them any time. From here on a forked child inherits all.
  void seal() noexcept;
  // After seal(): the buffers with records, in the order of completion.
  std::span<const Buffer> buffers() const noexcept { return {index(), sealed_}; }
  // After seal(): gives back the records as well. Buffers still lent stay.
  void drop_records() noexcept;
  // A buffer that comes back when the session is over: its records are too late. False if it's not one of ours that is
  // lent. May run beside seal() and everything after it.
  bool complete_late(uint8_t* buffer) noexcept { return claim(buffer) != IndexStack::kNone; }
  // Buffers that are still lent, after seal(). At 0 no borrower is left that writes, and none comes again.
  size_t stranded() const noexcept;

 private:
  // Moves a lent buffer to returned and makes the caller its owner; kNone if it is none.
  uint32_t claim(const uint8_t* buffer) noexcept {
    if (!records_.contains(buffer)) return IndexStack::kNone;
    const size_t offset = static_cast<size_t>(buffer - records_.data());
    if (offset % kGranule != 0) return IndexStack::kNone;
    const uint32_t index = static_cast<uint32_t>(offset / kGranule);
    uint32_t expected = kLent;
    // Acquire: partner is the release in lend(). Release: the borrower's writes; partner is the acquire in stranded().
    return cell(index).state.compare_exchange_strong(expected, kReturned, std::memory_order_acq_rel,
                                                     std::memory_order_relaxed)
               ? index
               : IndexStack::kNone;
  }

  void cut_off_rest(uint32_t index) noexcept {
    Cell& mine = cell(index);
    const size_t used = granules(mine.valid) * kGranule;
    if (used + kWorthLending > mine.size) return;
    const uint32_t rest = index + static_cast<uint32_t>(used / kGranule);
    cell(rest).size = mine.size - static_cast<uint32_t>(used);
    mine.size = static_cast<uint32_t>(used);
    recycle(rest);
  }

  void push_returned(uint32_t index) noexcept {
    uint32_t head = returned_.load(std::memory_order_relaxed);
    do {
      cell(index).successor.store(head, std::memory_order_relaxed);
      // Release: the descriptor and the records that this thread wrote or got; partner is the exchange in
      // take_returned(). Later pushes are read-modify-writes of the same word and continue the release.
    } while (!returned_.compare_exchange_weak(head, index + 1, std::memory_order_release, std::memory_order_relaxed));
  }

  // Calls visit(begin, end, cell) for each buffer that was ever lent, in the order of addresses. After seal() only.
  template <class Visitor>
  void for_each(Visitor visit) const noexcept;

  PrefaultedRegion records_;
  PrefaultedRegion cells_;
  PrefaultedRegion index_;  // of what was sealed: a table, here so that nothing has to be allocated at the end
  size_t buffer_bytes_ = 0;
  size_t sealed_ = 0;
  alignas(64) IndexStack free_;
  alignas(64) std::atomic<uint32_t> returned_{0};  // index + 1 of the newest, 0 if there is none
};

}  // namespace kineto_spyre::capture
