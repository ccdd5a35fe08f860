// The buffers that libaiupti fills.
//
// Memory map. Pieces of the records' region are handed out as they are asked for. Each is a whole number of granules of
// 4 KiB, and each granule has a cell in a second region; the cell of a buffer's first granule is the buffer's
// descriptor, so an address finds its descriptor by a subtraction and a shift.
//
//    records  | buffer 0            | buffer 1    | buffer 2 ...            |
//    granules |  0 |  1 | ..  |  63 | 64 |  ..    |
//    cells    |[D] |    |     |     |[D] |        |       D: state, size, valid, successor
//
// Buffers are large (32 MiB, as clients' are), because a library may take only a few between two flushes; memory comes
// behind them as they are filled. The budget is about memory: `reserved_` is what is filled plus what is lent, and
// never more than the budget. So that many borrowers at once share it, who asks while n others have a buffer gets at
// most a 16n-th of the budget, and the last ones what is left. A buffer that comes back with few records in it (a
// flush) is cut after them: the rest is a buffer of its own, if that is worth it, and no longer reserved.
//
// States of a descriptor, and who owns the edge:
//
//                 lend(): pop from free_, or take new          complete(): the thread of libaiupti
//    (fresh or free) ----------------------------------> lent -----------------------------------------> returned
//          ^                                               |                                                |
//          |              complete() with nothing in it    |                                                |
//          +-----------------------------------------------+                                                |
//          |                                     recycle(): whoever took it by take_returned()              |
//          +------------------------------------------------------------------------------------------------+
//
// A buffer may outlive its session. Then, after seal():
//
//               complete_late(): libaiupti's thread       collect_late(): the end of the later session
//      lent --------------------------------------> late ------------------------------------------> collected
//                                                                                                        |
//                                                returned <----------------------------------------------+
//                                                          release(): the later session's result is gone
//
// lent -> anything is a compare-and-swap: of two completions of one buffer one is rejected, as is the completion of an
// address that was never lent. Whoever moves a descriptor into a state owns its plain fields until the next list makes
// them somebody else's: free_ (a stack, see index_stack.h) or returned_.
//
// returned_ is a list that many threads push to and one reader empties at once, with one exchange. It can't fill up,
// since each buffer is on it at most once; it has no ABA, since nothing but everything is ever taken from it. What can
// run out is the budget, and then lend() says so: the newest records are dropped, and whoever asked counts them.
//
// No function on the way of a record allocates, locks, waits for another thread or calls the kernel.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "capture/capture.h"
#include "capture/index_stack.h"
#include "capture/prefaulted_region.h"

namespace kineto_spyre::capture {

class Pool {
 private:
  enum State : uint32_t { kFree, kLent, kReturned, kClaimed, kLate, kCollected };
  struct Cell {
    std::atomic<uint32_t> successor;  // on free_ or returned_: index + 1 of the next, 0 at the end
    std::atomic<uint32_t> state;
    std::atomic<uint32_t> size;  // bytes, whole granules; written by the owner, read by the helper as well
    uint32_t valid;              // bytes, once it is returned
    uint32_t touched;            // the helper's: bytes that have memory behind them, at least
    uint32_t filled;             // the helper's: bytes that are written already, as far as it has seen
    uint64_t unused;
  };
  static_assert(sizeof(Cell) == 32 && std::is_trivially_destructible_v<Cell>);
  static_assert(ATOMIC_INT_LOCK_FREE == 2);

  // The region's zeroed bytes are cells: free, of size 0, on no list.
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

  // False, with a sentence in *error, if there is no address space. budget_bytes: all buffers together; buffer_bytes:
  // the largest one, less than 4 GiB. Both are rounded up to granules.
  bool map(size_t budget_bytes, size_t buffer_bytes, std::string* error);

  // A buffer to write to; its data is null if the budget is used up.
  Buffer lend() noexcept {
    // Relaxed, as all of reserved_: a number that is agreed upon; memory changes hands through free_ and region's
    // take().
    const size_t others = lent_.fetch_add(1, std::memory_order_relaxed);
    const size_t size = reserve(others);
    const uint32_t index = size != 0 ? piece_for(size) : IndexStack::kNone;
    if (index == IndexStack::kNone) {
      lent_.fetch_sub(1, std::memory_order_relaxed);
      return {nullptr, 0, 0};
    }
    Cell& lent = cell(index);
    const size_t bytes = lent.size.load(std::memory_order_relaxed);
    // Release: the descriptor; partner is the acquire in claim().
    lent.state.store(kLent, std::memory_order_release);
    return {data(index), bytes, 0};
  }

  enum class Completion { kTaken, kOversized, kUnknown };
  // A buffer comes back with `valid` bytes in it. kOversized: taken up to its size.
  Completion complete(uint8_t* buffer, size_t valid) noexcept {
    const uint32_t index = claim(buffer, kReturned);
    if (index == IndexStack::kNone) return Completion::kUnknown;
    lent_.fetch_sub(1, std::memory_order_relaxed);
    const bool oversized = set_valid(cell(index), valid);
    if (cell(index).valid == 0) {
      recycle(index);
      return Completion::kTaken;
    }
    cut_off_rest(index);
    push_returned(index);
    return oversized ? Completion::kOversized : Completion::kTaken;
  }

  // Calls visit(index, Buffer) for each buffer that was completed since the last call, in the order of completion. One
  // thread at a time. It may recycle() the buffer.
  template <class Visit>
  void take_returned(Visit visit) noexcept {
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
      visit(index, buffer_at(index));
    }
  }

  // A buffer that was taken may be lent again; its records are gone.
  void recycle(uint32_t index) noexcept {
    reserved_.fetch_sub(cell(index).size.load(std::memory_order_relaxed), std::memory_order_relaxed);
    // So that whoever finds it lent at the end can see whether something was written to it: no record begins with
    // zeroes.
    *reinterpret_cast<uint64_t*>(data(index)) = 0;
    push_free(index);
  }

  bool contains(const void* address) const noexcept { return records_.contains(address); }

  // The helper's: keeps `bytes` of memory ready, ahead of what is written to the buffers that are lent.
  void touch_ahead(size_t bytes) noexcept;

  // The end of a session: nobody calls anything above any more. Gives back the memory that holds no records, except
  // buffers that are still lent: their borrower may write to them any time. From here on a forked child inherits all.
  void seal() noexcept;
  // After seal(): the buffers with records, in the order of completion.
  std::span<const Buffer> buffers() const noexcept { return {index(), sealed_}; }
  // After seal(): gives back the records as well. Buffers that may still come back, or belong to another session, stay.
  void drop_records() noexcept;

  // After seal(), and beside everything that comes after it: a buffer comes back when its session is over. It waits for
  // collect_late(). kUnknown: it is not one of ours that is lent.
  Completion complete_late(uint8_t* buffer, size_t valid) noexcept {
    const uint32_t index = claim(buffer, kClaimed);
    if (index == IndexStack::kNone) return Completion::kUnknown;
    const bool oversized = set_valid(cell(index), valid);
    // Release: the descriptor, and the records that this thread wrote or got; partner is the acquire in late().
    cell(index).state.store(cell(index).valid != 0 ? kLate : kReturned, std::memory_order_release);
    return oversized ? Completion::kOversized : Completion::kTaken;
  }
  // Calls visit(index, Buffer) for each buffer that came back late since the last call; it belongs to the caller, who
  // release()s it in the end. One thread at a time.
  template <class Visit>
  void collect_late(Visit visit) noexcept {
    for_each([&](size_t begin, size_t, Cell& piece) {
      if (!late(piece)) return;
      piece.state.store(kCollected, std::memory_order_relaxed);
      const auto index = static_cast<uint32_t>(begin / kGranule);
      visit(index, buffer_at(index));
    });
  }
  void release(uint32_t index) noexcept;
  // Never frees this pool: `self` owns it.
  void keep_for_good(std::shared_ptr<Pool> self) noexcept { self_ = std::move(self); }

  // After seal(): buffers that may still come back, or did and wait for collect_late(). At 0 nobody writes to this
  // pool.
  size_t out() const noexcept;
  // After seal(): of the buffers that are lent, those that something was written to.
  size_t not_returned() const noexcept;

 private:
  // Bytes that are now reserved for one buffer, or 0.
  size_t reserve(size_t others) noexcept {
    size_t wanted = buffer_bytes_;
    if (others != 0) wanted = std::min(wanted, budget_ / (16 * others) / kGranule * kGranule);
    const size_t least = std::min(kWorthLending, buffer_bytes_);
    wanted = std::max(wanted, least);
    size_t reserved = reserved_.load(std::memory_order_relaxed);
    size_t size;
    do {
      size = reserved < budget_ ? std::min(wanted, budget_ - reserved) : 0;
      if (size < least) return 0;
    } while (!reserved_.compare_exchange_weak(reserved, reserved + size, std::memory_order_relaxed,
                                              std::memory_order_relaxed));
    return size;
  }

  // Memory for the bytes that were reserved, its size in its cell. None: nothing is reserved any more.
  uint32_t piece_for(size_t size) noexcept {
    uint32_t index = free_.pop(successors());
    if (index == IndexStack::kNone) {
      const size_t offset = records_.take(size);
      if (offset == SharedRegion::kEnd) {  // others hold free pieces just now
        reserved_.fetch_sub(size, std::memory_order_relaxed);
        return IndexStack::kNone;
      }
      index = static_cast<uint32_t>(offset / kGranule);
      // Release: partner is the acquire in for_each(), as for the stores of size below.
      cell(index).size.store(static_cast<uint32_t>(size), std::memory_order_release);
      return index;
    }
    const size_t had = cell(index).size.load(std::memory_order_relaxed);
    if (had >= size + kWorthLending) {
      push_free(cut(index, size));
    } else if (had != size) {  // less, or hardly more
      reserved_.fetch_add(had - size, std::memory_order_relaxed);
    }
    return index;
  }

  // Moves a lent buffer to `next` and makes the caller its owner; kNone if it is none.
  uint32_t claim(const uint8_t* buffer, State next) noexcept {
    if (!records_.contains(buffer)) return IndexStack::kNone;
    const size_t offset = static_cast<size_t>(buffer - records_.data());
    if (offset % kGranule != 0) return IndexStack::kNone;
    const uint32_t index = static_cast<uint32_t>(offset / kGranule);
    uint32_t expected = kLent;
    // Acquire: partner is the release in lend(). Release: the borrower's writes; partner is the acquire in out().
    return cell(index).state.compare_exchange_strong(expected, next, std::memory_order_acq_rel,
                                                     std::memory_order_relaxed)
               ? index
               : IndexStack::kNone;
  }

  // True if it is more than fits.
  static bool set_valid(Cell& mine, size_t valid) noexcept {
    const uint32_t size = mine.size.load(std::memory_order_relaxed);
    mine.valid = static_cast<uint32_t>(std::min<size_t>(valid, size));
    return valid > size;
  }

  // Leaves `keep` bytes (whole granules) of a buffer; the rest is a free buffer, and the caller's.
  uint32_t cut(uint32_t index, size_t keep) noexcept {
    Cell& mine = cell(index);
    const uint32_t rest = index + static_cast<uint32_t>(keep / kGranule);
    cell(rest).size.store(mine.size.load(std::memory_order_relaxed) - static_cast<uint32_t>(keep),
                          std::memory_order_relaxed);
    // Release: whoever sees where the rest begins sees its size; partner is the acquire in for_each().
    mine.size.store(static_cast<uint32_t>(keep), std::memory_order_release);
    return rest;
  }

  void cut_off_rest(uint32_t index) noexcept {
    const size_t used = granules(cell(index).valid) * kGranule;
    if (used + kWorthLending > cell(index).size.load(std::memory_order_relaxed)) return;
    recycle(cut(index, used));
  }

  void push_free(uint32_t index) noexcept {
    // Relaxed: the push releases it.
    cell(index).state.store(kFree, std::memory_order_relaxed);
    free_.push(index, successors());
  }

  void push_returned(uint32_t index) noexcept {
    uint32_t head = returned_.load(std::memory_order_relaxed);
    do {
      cell(index).successor.store(head, std::memory_order_relaxed);
      // Release: the descriptor and the records that this thread wrote or got; partner is the exchange in
      // take_returned(). Later pushes are read-modify-writes of the same word and continue the release.
    } while (!returned_.compare_exchange_weak(head, index + 1, std::memory_order_release, std::memory_order_relaxed));
  }

  Buffer buffer_at(uint32_t index) const noexcept {
    return Buffer{data(index), cell(index).size.load(std::memory_order_relaxed), cell(index).valid};
  }

  // Acquire: partner is the release in complete_late().
  static bool late(const Cell& piece) noexcept { return piece.state.load(std::memory_order_acquire) == kLate; }

  // Calls visit(begin, end, cell) for each buffer that was ever lent, in the order of addresses. Beside lend() and
  // complete() it may miss the newest.
  template <class Visit>
  void for_each(Visit visit) const noexcept {
    size_t begin = 0;
    while (begin < records_.used()) {
      Cell& piece = cell(static_cast<uint32_t>(begin / kGranule));
      // Acquire: partners are the releases in piece_for() and cut().
      const size_t size = piece.size.load(std::memory_order_acquire);
      if (size == 0) return;  // taken this moment
      visit(begin, begin + size, piece);
      begin += size;
    }
  }

  // For touch_ahead(): how far a lent buffer is filled, and memory ahead of that. Returns the bytes that are ready.
  size_t touch_lent(size_t begin, size_t size, Cell& piece, size_t ahead) noexcept;

  SharedRegion records_;
  SharedRegion cells_;
  SharedRegion index_;  // of what was sealed: a table, here so that nothing has to be allocated at the end
  size_t budget_ = 0;
  size_t buffer_bytes_ = 0;
  size_t sealed_ = 0;
  alignas(64) IndexStack free_;
  alignas(64) std::atomic<uint32_t> returned_{0};  // index + 1 of the newest, 0 if there is none
  alignas(64) std::atomic<size_t> reserved_{0};    // bytes that are filled or lent
  std::atomic<size_t> lent_{0};                    // buffers
  std::shared_ptr<Pool> self_;
};

}  // namespace kineto_spyre::capture
