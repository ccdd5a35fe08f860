// What application threads push and pop: when an op, or a record_function range, began and ended.
//
// Memory map. A session has two regions: blocks of 1,023 op events, and a table of the threads that made them. A thread
// writes to a block of its own, from its first zero to its end, and then takes the next one; when the thread ends, the
// rest of its block waits for another thread, so that ten thousand short threads share a few blocks.
//
//    block   | link | header of A | event | event | ... | header of B | event | 0 0 0 ...     16 bytes each
//    event   [ stamp | id << 3, kind ]
//    header  [ which stretch of its thread this is | number of the thread << 3, kHeader ]
//    threads | tid, dropped | tid, dropped | ...
//
// Nothing else is written down: fresh memory is zero and no event is (kinds count from 1), so the events of a block end
// at the first zero. What there is no room for is counted, and a thread that dropped one event makes no further one in
// this window: what is kept is an exact beginning of what the thread did.
//
// Where a thread writes next is in its thread-local memory. What whoever closes a window reads of it (`inside`, below)
// is its slot: static memory, so that it outlives the thread and every session. A slot is taken at a thread's first
// event and given back when the thread ends.
//
// Opening and closing. The gate is closed, or the number of the window that is open; each window has a number of its
// own. Off is one relaxed load and a branch. On, the thread and whoever closes the window shake hands (Dekker):
//
//    thread                                     close()
//    inside = 1                                 gate = closed
//    (compiler fence)                           membarrier(): a full fence in every running thread of this process
//    if gate is my window: write the event      wait until inside == 0        (acquire)
//    inside = 0                 (release)       from here on the events are whole, and nobody adds to them
//
// Either the thread loads the gate after the fence that membarrier put into it: then it sees it closed and writes
// nothing. Or before: then its store to inside came before that fence too, close() sees it, and waits. So an event
// needs no fence. Where there is no membarrier, or no cheap counter (clock.h), a thread's `window` is never set to the
// open one: every event then goes the slow path, which has a fence and takes any clock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/index_stack.h"
#include "capture/prefaulted_region.h"

namespace kineto_spyre::capture {

struct PackedOpEvent {
  uint64_t stamp;  // ticks
  uint64_t word;   // 61 bits of id, 3 of kind
};
static_assert(sizeof(PackedOpEvent) == 16);

// The memory of one session's op events.
class OpEventStore {
 public:
  struct Thread {
    uint32_t tid;
    uint32_t stretches;  // how often it took room
    uint64_t dropped;
  };
  struct Room {
    PackedOpEvent* begin = nullptr;
    PackedOpEvent* end = nullptr;
  };

  bool map(size_t budget_bytes, std::string* error);
  void touch_ahead(size_t bytes) noexcept;

  // Enters the calling thread; null if the table is full.
  Thread* enter(uint32_t tid) noexcept;
  // Room for events of `thread`, its header written. No room: begin is null.
  Room take(Thread* thread) noexcept;
  // A thread ended: what it has not used serves another one.
  void give_back(Room rest) noexcept;

  // The rest is for after the window was closed.
  uint64_t count() const noexcept;  // events that were kept
  uint64_t dropped() const noexcept;
  // By thread, in the order in which the threads made their first events. Throws std::bad_alloc.
  std::vector<ThreadOpEvents> collect(const TickConverter& clock) const;

 private:
  static constexpr size_t kBlockBytes = size_t{16} * 1024;
  static constexpr size_t kBlockEvents = kBlockBytes / sizeof(PackedOpEvent);
  static constexpr size_t kMaxThreads = size_t{64} * 1024;
  struct Link {
    std::atomic<uint32_t> successor;  // for waiting_
    uint32_t used;                    // where the rest of a waiting block begins
    uint64_t unused;
  };
  static_assert(sizeof(Link) == sizeof(PackedOpEvent));

  Link& link(uint32_t block) const noexcept { return *reinterpret_cast<Link*>(blocks_.data() + block * kBlockBytes); }
  PackedOpEvent* events(uint32_t block) const noexcept { return reinterpret_cast<PackedOpEvent*>(&link(block)); }
  auto successors() const noexcept {
    return [this](uint32_t block) -> std::atomic<uint32_t>& { return link(block).successor; };
  }
  Thread* threads() const noexcept { return reinterpret_cast<Thread*>(threads_.data()); }
  // Calls visit(thread number, stretch, first event, end) for each stretch of each block.
  template <class Visit>
  void for_each_stretch(Visit visit) const;

  SharedRegion blocks_;
  SharedRegion threads_;
  alignas(64) IndexStack waiting_;
};

// Once per process: readies threads' slots. False if op events can't be had on this system.
bool prepare_op_events() noexcept;
// For tests: whether events may go the fast path, where the machine has what it needs. Not while a window is open.
void allow_fast_path(bool allowed) noexcept;
// Events go to *store until close_op_events(), which returns when the store is complete and nobody looks at it any
// more.
void open_op_events(OpEventStore* store) noexcept;
void close_op_events() noexcept;
// Events that were dropped because their thread found no slot or no place in the table, since the last call.
uint64_t take_unattributed_drops() noexcept;
// In a child, right after fork(): off, and no thread but the calling one.
void forget_op_events_after_fork() noexcept;

}  // namespace kineto_spyre::capture
