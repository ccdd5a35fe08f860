#include "capture/op_events.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace kineto_spyre::capture {
namespace {

constexpr uint64_t kHeader = 7;  // beside OpEventKind + 1
constexpr int kKindBits = 3;

constexpr uint64_t word_of(OpEventKind kind, uint64_t id) {
  return (id << kKindBits) | (static_cast<uint64_t>(kind) + 1);
}

}  // namespace

bool OpEventStore::map(size_t budget_bytes, std::string* error) {
  const size_t blocks = std::max<size_t>(1, budget_bytes / kBlockBytes);
  return blocks_.map_shared(blocks * kBlockBytes, error) && threads_.map_shared(kMaxThreads * sizeof(Thread), error);
}

void OpEventStore::touch_ahead(size_t bytes) noexcept {
  blocks_.touch_ahead(bytes);
  threads_.touch_ahead(kBlockBytes);
}

OpEventStore::Thread* OpEventStore::enter(uint32_t tid) noexcept {
  const size_t offset = threads_.take(sizeof(Thread));
  if (offset == SharedRegion::kEnd) return nullptr;
  auto* thread = reinterpret_cast<Thread*>(threads_.data() + offset);
  thread->tid = tid;
  return thread;
}

OpEventStore::Room OpEventStore::take(Thread* thread) noexcept {
  uint32_t block = waiting_.pop(successors());
  uint32_t used = 1;
  if (block != IndexStack::kNone) {
    used = link(block).used;
  } else {
    const size_t offset = blocks_.take(kBlockBytes);
    if (offset == SharedRegion::kEnd) return {};
    block = static_cast<uint32_t>(offset / kBlockBytes);
  }
  PackedOpEvent* begin = events(block) + used;
  *begin = {thread->stretches++, (static_cast<uint64_t>(thread - threads()) << kKindBits) | kHeader};
  return {begin + 1, events(block) + kBlockEvents};
}

void OpEventStore::give_back(Room rest) noexcept {
  if (rest.end - rest.begin < 2) return;  // no room for a header and an event
  const auto block = static_cast<uint32_t>((reinterpret_cast<uint8_t*>(rest.end) - blocks_.data()) / kBlockBytes - 1);
  link(block).used = static_cast<uint32_t>(rest.begin - events(block));
  waiting_.push(block, successors());
}

template <class Visit>
void OpEventStore::for_each_stretch(Visit visit) const {
  const auto blocks = static_cast<uint32_t>(blocks_.used() / kBlockBytes);
  for (uint32_t block = 0; block < blocks; ++block) {
    const PackedOpEvent* event = events(block) + 1;
    const PackedOpEvent* end = events(block) + kBlockEvents;
    while (event != end && event->word != 0) {
      const PackedOpEvent& header = *event++;
      const PackedOpEvent* first = event;
      while (event != end && event->word != 0 && (event->word & 7) != kHeader) ++event;
      visit(static_cast<size_t>(header.word >> kKindBits), header.stamp, first, event);
    }
  }
}

uint64_t OpEventStore::count() const noexcept {
  uint64_t count = 0;
  for_each_stretch([&](size_t, uint64_t, const PackedOpEvent* first, const PackedOpEvent* end) {
    count += static_cast<uint64_t>(end - first);
  });
  return count;
}

uint64_t OpEventStore::dropped() const noexcept {
  uint64_t dropped = 0;
  for (size_t i = 0; i < threads_.used() / sizeof(Thread); ++i) dropped += threads()[i].dropped;
  return dropped;
}

std::vector<ThreadOpEvents> OpEventStore::collect(const TickConverter& clock) const {
  struct Stretch {
    uint64_t number;
    const PackedOpEvent* first;
    const PackedOpEvent* end;
  };
  const size_t entered = threads_.used() / sizeof(Thread);
  std::vector<std::vector<Stretch>> stretches(entered);
  for_each_stretch([&](size_t thread, uint64_t number, const PackedOpEvent* first, const PackedOpEvent* end) {
    stretches[thread].push_back({number, first, end});
  });

  std::vector<ThreadOpEvents> result(entered);
  for (size_t i = 0; i < entered; ++i) {
    // Blocks are in the order in which they were taken, but a rest that waited may be older than the block before it.
    std::ranges::sort(stretches[i], {}, &Stretch::number);
    size_t count = 0;
    for (const Stretch& stretch : stretches[i]) count += static_cast<size_t>(stretch.end - stretch.first);
    result[i].tid = static_cast<int32_t>(threads()[i].tid);
    result[i].dropped = threads()[i].dropped;
    result[i].events.reserve(count);
    for (const Stretch& stretch : stretches[i]) {
      for (const PackedOpEvent* event = stretch.first; event != stretch.end; ++event) {
        result[i].events.push_back(
            {clock.to_ns(event->stamp), event->word >> kKindBits, static_cast<OpEventKind>((event->word & 7) - 1)});
      }
    }
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------

namespace {

// A number that no window has, and the value of the gate between windows; windows have the numbers from 2.
constexpr uint32_t kNever = 0;
constexpr uint32_t kClosed = 1;

struct alignas(64) Slot {
  std::atomic<uint32_t> inside{0};     // 1 while its thread may write
  std::atomic<uint32_t> successor{0};  // for free_slots
};

constexpr uint32_t kSlots = 16 * 1024;  // threads that have made events and live, at one time
constinit Slot slots[kSlots];
constinit std::atomic<uint32_t> slots_used{0};
constinit IndexStack free_slots;
std::atomic<uint32_t>& successor_of_slot(uint32_t index) { return slots[index].successor; }

constinit Slot no_slot;  // what a thread without one has

// All that a thread reads for an event, beside the gate, in one line of the cache; to its slot and its block it only
// writes. Static TLS: the address is a constant away from the thread pointer, and there is nothing to allocate or call.
struct alignas(64) Writing {
  Slot* slot = &no_slot;
  PackedOpEvent* at = nullptr;
  PackedOpEvent* end = nullptr;
  uint32_t window = kNever;  // in which `at` may be written to by the fast path
  uint32_t known = kNever;   // in which `thread` is entered
  OpEventStore* store = nullptr;
  OpEventStore::Thread* thread = nullptr;
};
static_assert(sizeof(Writing) == 64);
__attribute__((tls_model("initial-exec"))) constinit thread_local Writing mine;
pthread_key_t thread_end;

alignas(64) constinit std::atomic<uint32_t> gate{kClosed};
constinit std::atomic<OpEventStore*> open_store{nullptr};
alignas(64) constinit std::atomic<uint64_t> unattributed{0};  // not beside the gate, which everybody reads
constinit uint32_t windows = kClosed;                         // by whoever opens
constinit bool fast_path = false;                             // written while the gate is closed
constinit bool can_fast_path = false;

bool has_membarrier() noexcept { return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0; }

Slot* take_slot() noexcept {
  uint32_t index = free_slots.pop(successor_of_slot);
  if (index == IndexStack::kNone) {
    if (slots_used.load(std::memory_order_relaxed) >= kSlots) return nullptr;
    // Sequentially consistent, as is the load in close_op_events(): either that sees this slot, or the thread sees the
    // closed gate (see add_on_slow_path).
    index = slots_used.fetch_add(1, std::memory_order_seq_cst);
    if (index >= kSlots) return nullptr;
  }
  return &slots[index];
}

// From here until leave() the window that is returned stays as it is, if it is one.
uint32_t enter_with_fence(Slot* slot) noexcept {
  slot->inside.exchange(1, std::memory_order_seq_cst);
  return gate.load(std::memory_order_seq_cst);
}
// Release: the events; partner is the acquire in close_op_events().
void leave(Slot* slot) noexcept { slot->inside.store(0, std::memory_order_release); }

void at_thread_end(void* value) noexcept {
  auto* slot = static_cast<Slot*>(value);
  const uint32_t window = enter_with_fence(slot);
  if (window != kClosed && window == mine.known && mine.at != nullptr) mine.store->give_back({mine.at, mine.end});
  leave(slot);
  mine = {};
  free_slots.push(static_cast<uint32_t>(slot - slots), successor_of_slot);
}

// The first event of a thread or of a window, a full block, and machines without the means for the fast path.
__attribute__((noinline, cold)) void add_on_slow_path(uint64_t word) noexcept {
  Slot* slot = mine.slot;
  if (slot == &no_slot) {
    slot = take_slot();
    if (slot == nullptr) {
      unattributed.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (pthread_setspecific(thread_end, slot) != 0) {  // no memory: the slot would never come back
      free_slots.push(static_cast<uint32_t>(slot - slots), successor_of_slot);
      unattributed.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    mine.slot = slot;
  }

  const uint32_t window = enter_with_fence(slot);
  if (window != kClosed) {
    if (mine.known != window) {
      mine.store = open_store.load(std::memory_order_relaxed);  // written before the gate opened, read after
      mine.thread = mine.store->enter(static_cast<uint32_t>(syscall(SYS_gettid)));
      mine.at = mine.end = nullptr;
      mine.known = window;
      mine.window = fast_path ? window : kNever;
    }
    if (mine.thread == nullptr) {
      unattributed.fetch_add(1, std::memory_order_relaxed);
    } else {
      if (mine.at == mine.end && mine.thread->dropped == 0) {
        const OpEventStore::Room room = mine.store->take(mine.thread);
        mine.at = room.begin;
        mine.end = room.end;
      }
      if (mine.at != mine.end) {
        *mine.at++ = {ticks(), word};
      } else {
        ++mine.thread->dropped;
      }
    }
  }
  leave(slot);
}

template <OpEventKind kind>
__attribute__((noinline)) void add_on_fast_path(uint64_t id) noexcept {
  Slot* slot = mine.slot;
  slot->inside.store(1, std::memory_order_relaxed);
  // The processor's part of this fence is the membarrier in close_op_events().
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (gate.load(std::memory_order_relaxed) == mine.window && mine.at != mine.end) [[likely]] {
    *mine.at++ = {fast_ticks(), word_of(kind, id)};
    return leave(slot);
  }
  leave(slot);
  add_on_slow_path(word_of(kind, id));
}

// A function of its own, so that off is a load and a branch that is not taken.
template <OpEventKind kind>
inline void add(uint64_t id) noexcept {
  // Relaxed: off is off a moment sooner or later; what counts is the load in add_on_fast_path().
  if (gate.load(std::memory_order_relaxed) != kClosed) [[unlikely]]
    add_on_fast_path<kind>(id);
}

}  // namespace

bool prepare_op_events() noexcept {
  static const bool ready = [] {
    fast_path = can_fast_path = has_fast_ticks() && has_membarrier();
    return pthread_key_create(&thread_end, at_thread_end) == 0;
  }();
  return ready;
}

void allow_fast_path(bool allowed) noexcept { fast_path = allowed && can_fast_path; }

void open_op_events(OpEventStore* store) noexcept {
  open_store.store(store, std::memory_order_relaxed);
  if (++windows <= kClosed) windows = kClosed + 1;
  // Release and sequentially consistent: the store, and `fast_path`; partner is the load in enter_with_fence().
  gate.store(windows, std::memory_order_seq_cst);
}

void close_op_events() noexcept {
  if (gate.exchange(kClosed, std::memory_order_seq_cst) == kClosed) return;
  if (fast_path) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  const uint32_t used = std::min(slots_used.load(std::memory_order_seq_cst), kSlots);
  for (uint32_t i = 0; i < used; ++i) {
    // Sequentially consistent for the slow path; its acquire is the partner of the release in leave().
    while (slots[i].inside.load(std::memory_order_seq_cst) != 0) sched_yield();
  }
}

uint64_t take_unattributed_drops() noexcept { return unattributed.exchange(0, std::memory_order_relaxed); }

void forget_op_events_after_fork() noexcept {
  gate.store(kClosed, std::memory_order_relaxed);
  const uint32_t used = std::min(slots_used.load(std::memory_order_relaxed), kSlots);
  for (uint32_t i = 0; i < used; ++i) slots[i].inside.store(0, std::memory_order_relaxed);
  free_slots.clear();
  slots_used.store(0, std::memory_order_relaxed);
  if (mine.slot != &no_slot) pthread_setspecific(thread_end, nullptr);
  mine = {};
  unattributed.store(0, std::memory_order_relaxed);
}

// In one cache line each, what there is to run while off: every op of the program does.
[[gnu::aligned(64)]] void push_op(uint64_t id) noexcept { add<OpEventKind::kPushOp>(id); }
[[gnu::aligned(64)]] void pop_op() noexcept { add<OpEventKind::kPopOp>(0); }
void push_range(uint64_t id) noexcept { add<OpEventKind::kPushRange>(id); }
void pop_range() noexcept { add<OpEventKind::kPopRange>(0); }

}  // namespace kineto_spyre::capture
