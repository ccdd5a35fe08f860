#include "capture/op_ring.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <utility>

#include "capture/clock.h"
#include "capture/index_stack.h"
#include "capture/prefaulted_region.h"
#include "capture/ring_hooks.h"

namespace kineto_spyre::capture::op_ring {
namespace {

struct Event {
  uint64_t stamp;
  uint64_t word;
};
constexpr int kKindBits = 3;
constexpr int64_t kPointEvery = 1'000'000'000;
constexpr uint64_t kText = 6;  // beside OpEventKind
constexpr uint64_t word_of(OpEventKind kind, uint64_t id) { return (id << kKindBits) | static_cast<uint64_t>(kind); }

enum State : uint32_t { kFree, kWriting, kDone };

struct Block {
  static constexpr size_t kBytes = 4096;
  static constexpr uint32_t kEvents = (kBytes - 32) / sizeof(Event);

  std::atomic<uint32_t> used;       // events, by its thread
  std::atomic<uint32_t> state;      // release by its thread, for its header
  std::atomic<uint32_t> successor;  // on free_blocks or done_blocks
  uint32_t tid;
  uint32_t thread;   // number of the thread in this process: tids are given out again
  uint32_t stretch;  // which block of its thread this is
  uint32_t gap;      // events were dropped before this block
  uint32_t unused;
  Event events[kEvents];
};
static_assert(sizeof(Block) == Block::kBytes);

// What a thread reads for an event. Static TLS, and little of it: a library that is loaded late has to share it.
struct Writing {
  Block* block = nullptr;
  uint32_t thread = 0;  // 0: this thread has made no event yet
  uint32_t stretch = 0;
  uint64_t dropped = 0;  // since its last block
};
__attribute__((tls_model("initial-exec"))) constinit thread_local Writing mine;

alignas(64) constinit std::atomic<bool> on{false};
constinit std::atomic<uint32_t> threads{0};
constinit std::atomic<uint64_t> dropped{0};
alignas(64) constinit IndexStack free_blocks;
alignas(64) constinit std::atomic<uint32_t> done_blocks{0};  // index + 1 of the newest, 0: none

// Under the ring's lock, but for `memory`, which never changes once `on` was true.
struct Keeping {
  SharedRegion memory;
  size_t count = 0;
  int64_t keep_ns = 0;
  int64_t started_ns = 0;
  std::deque<ClockPoint> points;  // one a second: clocks drift, and are set, in a program that runs for weeks
  struct Kept {
    uint32_t index;
    int64_t seen_ns;
  };
  std::deque<Kept> kept;
  int64_t whole_from_ns = 0;
  uint64_t dropped_before = 0;  // at the last collect()
  int64_t last_drop_ns = 0;
  pthread_key_t thread_end{};
};
Keeping* keeping = nullptr;  // made once, never freed: threads may outlive static destruction

Block& block_at(uint32_t index) { return reinterpret_cast<Block*>(keeping->memory.data())[index]; }
uint32_t index_of(const Block* block) {
  return static_cast<uint32_t>(block - reinterpret_cast<Block*>(keeping->memory.data()));
}
std::atomic<uint32_t>& successor_of(uint32_t index) { return block_at(index).successor; }

void hand_over(Block* block) noexcept {
  block->state.store(kDone, std::memory_order_release);  // partner: the acquire in snapshot(), for the header
  uint32_t head = done_blocks.load(std::memory_order_relaxed);
  do {
    block->successor.store(head, std::memory_order_relaxed);
    // Release: the block; partner is the exchange in take_done(). Later pushes continue it.
  } while (!done_blocks.compare_exchange_weak(head, index_of(block) + 1, std::memory_order_release,
                                              std::memory_order_relaxed));
}

void at_thread_end(void*) noexcept {
  if (mine.block != nullptr) hand_over(std::exchange(mine.block, nullptr));
  mine = {};
}

// A block with room for so many events; null, and they are counted as dropped, if there is none.
__attribute__((noinline, cold)) Block* take_block(uint32_t events) noexcept {
  if (mine.block != nullptr) hand_over(std::exchange(mine.block, nullptr));
  if (mine.thread == 0) {
    if (pthread_setspecific(keeping->thread_end, &mine) != 0) {
      dropped.fetch_add(events, std::memory_order_relaxed);
      return nullptr;
    }
    mine.thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const uint32_t index = free_blocks.pop(successor_of);
  if (index == IndexStack::kNone) {
    mine.dropped += events;
    dropped.fetch_add(events, std::memory_order_relaxed);
    return nullptr;
  }
  Block& block = block_at(index);
  block.used.store(0, std::memory_order_relaxed);
  block.tid = static_cast<uint32_t>(syscall(SYS_gettid));
  block.thread = mine.thread;
  block.stretch = mine.stretch++;
  block.gap = std::exchange(mine.dropped, 0) != 0;
  block.state.store(kWriting, std::memory_order_release);  // partner: the acquire in snapshot()
  mine.block = &block;
  return &block;
}

inline Block* room_for(uint32_t events) noexcept {
  Block* block = mine.block;
  if (block != nullptr && block->used.load(std::memory_order_relaxed) + events <= Block::kEvents) [[likely]] {
    return block;
  }
  return take_block(events);
}

inline void add(uint64_t word) noexcept {
  if (!on.load(std::memory_order_acquire)) return;  // partner: the release in start(), for `keeping`
  Block* block = room_for(1);
  if (block == nullptr) [[unlikely]]
    return;
  const uint32_t used = block->used.load(std::memory_order_relaxed);
  block->events[used] = {ticks(), word};
  block->used.store(used + 1, std::memory_order_release);  // partner: the acquire in ThreadReader::read()
}

}  // namespace

void push_op(uint64_t id) noexcept { add(word_of(OpEventKind::kPushOp, id)); }
void pop_op() noexcept { add(word_of(OpEventKind::kPopOp, 0)); }
void pop_range() noexcept { add(word_of(OpEventKind::kPopRange, 0)); }

void push_range(std::string_view name) noexcept {
  if (!on.load(std::memory_order_acquire)) return;  // as in add()
  const size_t length = std::min(name.size(), kLongestName);
  const auto more = static_cast<uint32_t>((length + sizeof(Event) - 1) / sizeof(Event));
  Block* block = room_for(2 + more);
  if (block == nullptr) return;
  const uint32_t used = block->used.load(std::memory_order_relaxed);
  const uint64_t now = ticks();
  block->events[used] = {now, word_of(OpEventKind::kPushRange, 0)};
  block->events[used + 1] = {now, uint64_t{length} << kKindBits | kText};
  std::memcpy(&block->events[used + 2], name.data(), length);
  block->used.store(used + 2 + more, std::memory_order_release);  // as in add()
}

// ---------------------------------------------------------------------------------------------------------------------
// Control, and whoever collects: under the ring's lock.

namespace {

bool make_keeping(size_t budget_bytes, std::string* error) {
  auto made = std::make_unique<Keeping>();
  made->count = std::max<size_t>(16, budget_bytes / Block::kBytes);
  if (!made->memory.map_shared(made->count * Block::kBytes, error)) return false;
  if (pthread_key_create(&made->thread_end, at_thread_end) != 0) throw std::bad_alloc();
  keeping = made.release();
  for (size_t i = keeping->count; i-- != 0;) free_blocks.push(static_cast<uint32_t>(i), successor_of);
  return true;
}

void add_point() {
  std::deque<ClockPoint>& points = keeping->points;
  const ClockPoint now = clock_point();
  points.push_back(now);
  while (points.size() > 2 && points[1].ns < now.ns - keeping->keep_ns - kPointEvery) points.pop_front();
}

void take_done() {
  const int64_t now = unix_ns();
  uint32_t newest = done_blocks.exchange(0, std::memory_order_acquire);  // partner: the release in hand_over()
  std::vector<uint32_t> taken;
  for (; newest != 0; newest = successor_of(newest - 1).load(std::memory_order_relaxed)) taken.push_back(newest - 1);
  for (auto index = taken.rbegin(); index != taken.rend(); ++index) keeping->kept.push_back({*index, now});
}

void recycle_oldest() {
  const Keeping::Kept oldest = keeping->kept.front();
  keeping->kept.pop_front();
  keeping->whole_from_ns = std::max(keeping->whole_from_ns, oldest.seen_ns);
  block_at(oldest.index).state.store(kFree, std::memory_order_relaxed);  // the push releases it
  free_blocks.push(oldest.index, successor_of);
}

}  // namespace

bool start(size_t budget_bytes, int64_t keep_ns, std::string* error) {
  const RingLock lock;
  try {
    if (keeping == nullptr && !make_keeping(budget_bytes, error)) return false;
    has_fast_ticks();  // found out now
    take_done();
    while (!keeping->kept.empty()) recycle_oldest();
    keeping->keep_ns = keep_ns;
    keeping->points.assign(1, clock_point());
    keeping->started_ns = keeping->whole_from_ns = keeping->points.front().ns;
    on.store(true, std::memory_order_release);
    return true;
  } catch (const std::bad_alloc&) {
    *error = "Out of memory.";
    return false;
  }
}

bool is_on() noexcept { return on.load(std::memory_order_relaxed); }
void stop() noexcept { on.store(false, std::memory_order_relaxed); }

void collect() noexcept {
  if (keeping == nullptr) return;
  try {
    if (!keeping->points.empty() && unix_ns() - keeping->points.back().ns >= kPointEvery) add_point();
    take_done();
  } catch (const std::bad_alloc&) {
    return;  // what was done stays so; blocks run out, and that is counted
  }
  const int64_t now = unix_ns();
  const uint64_t dropped_now = dropped.load(std::memory_order_relaxed);
  if (std::exchange(keeping->dropped_before, dropped_now) != dropped_now) keeping->last_drop_ns = now;
  while (!keeping->kept.empty() && keeping->kept.front().seen_ns < now - keeping->keep_ns) recycle_oldest();
  while (keeping->kept.size() > keeping->count - keeping->count / 4) recycle_oldest();
}

Status status() noexcept {
  const RingLock lock;
  if (keeping == nullptr) return {};
  return {keeping->whole_from_ns, dropped.load(std::memory_order_relaxed), keeping->last_drop_ns,
          keeping->kept.size() * Block::kBytes};
}

// ---------------------------------------------------------------------------------------------------------------------
// The snapshot.

namespace {

// From ticks to time, by the straight line between the two points around them. Fast for ticks that ascend.
class PointsClock {
 public:
  explicit PointsClock(const std::deque<ClockPoint>& points) : points_(points) {
    for (size_t i = 0; i + 1 < points.size(); ++i) lines_.emplace_back(points[i], points[i + 1]);
  }
  int64_t to_ns(uint64_t ticks) {
    while (at_ + 1 < lines_.size() && ticks >= points_[at_ + 1].ticks) ++at_;
    while (at_ > 0 && ticks < points_[at_].ticks) --at_;
    return lines_[at_].to_ns(ticks);
  }
  double error_ns() const {
    double error = 0;
    for (const TickConverter& line : lines_) error = std::max(error, line.error_ns());
    return error;
  }

 private:
  const std::deque<ClockPoint>& points_;
  std::vector<TickConverter> lines_;
  size_t at_ = 0;
};

// Of one thread: its edges become slices, and what csrc/trace wants.
class ThreadReader {
 public:
  ThreadReader(int32_t tid, PointsClock* clock, int64_t now, Snapshot* out) : clock_(*clock), now_(now), out_(*out) {
    out_.threads.push_back({.tid = tid});
  }

  void read(const Block& block) {
    if (block.gap != 0) forget_open();
    const uint32_t used = block.used.load(std::memory_order_acquire);  // partner: the releases in add(), push_range()
    for (uint32_t i = 0; i < used; ++i) {
      const Event& event = block.events[i];
      const uint64_t kind = event.word & 7;
      if (kind == kText) {
        const size_t length = event.word >> kKindBits;
        if (named_next_) name_range({reinterpret_cast<const char*>(&block.events[i + 1]), length});
        i += static_cast<uint32_t>((length + sizeof(Event) - 1) / sizeof(Event));
        continue;
      }
      const int64_t ns = clock_.to_ns(event.stamp);
      // A thread's block may hold what was kept before the recording was stopped and started again.
      named_next_ = ns >= keeping->started_ns;
      if (named_next_) edge(ns, static_cast<OpEventKind>(kind), event.word >> kKindBits);
    }
  }

  void finish() {
    for (const size_t index : open_) out_.slices[index].end = now_;
  }

 private:
  void edge(int64_t ns, OpEventKind kind, uint64_t id) {
    last_ = std::max(last_, ns);
    const bool range = kind == OpEventKind::kPushRange || kind == OpEventKind::kPopRange;
    if (kind == OpEventKind::kPushOp || kind == OpEventKind::kPushRange) {
      out_.slices.push_back({last_, last_, id, out_.threads.back().tid, range, true});
      open_.push_back(out_.slices.size() - 1);
      out_.threads.back().events.push_back({last_, out_.slices.size(), kind});
      return;
    }
    // An end closes the innermost that is open of its sort. Ops and ranges need not nest into one another.
    const auto at = std::find_if(open_.rbegin(), open_.rend(), [&](size_t i) { return out_.slices[i].range == range; });
    if (at == open_.rend()) return;  // it began before the recording does
    Slice& slice = out_.slices[*at];
    slice.end = last_;
    slice.open = false;
    open_.erase(std::next(at).base());
    out_.threads.back().events.push_back({last_, 0, kind});
  }

  void name_range(std::string_view name) {
    out_.slices.back().id = out_.names.size();
    out_.names.emplace_back(name);
  }

  // How what was open went on is not known: it ends where it was last seen.
  void forget_open() {
    while (!open_.empty())
      edge(last_, out_.slices[open_.back()].range ? OpEventKind::kPopRange : OpEventKind::kPopOp, 0);
  }

  PointsClock& clock_;
  int64_t now_;
  Snapshot& out_;
  int64_t last_ = INT64_MIN;
  bool named_next_ = false;   // the last event was kept
  std::vector<size_t> open_;  // slices
};

}  // namespace

Snapshot snapshot() {
  const RingLock lock;
  Snapshot result;
  if (keeping == nullptr) return result;
  add_point();
  const int64_t now = keeping->points.back().ns;
  PointsClock clock(keeping->points);
  std::map<uint32_t, std::vector<const Block*>> by_thread;
  for (uint32_t i = 0; i < keeping->count; ++i) {
    const Block& block = block_at(i);
    // Acquire: partner is the release in take_block(), for the header. It stays as it is while the lock is held: only a
    // collector makes a block free.
    if (block.state.load(std::memory_order_acquire) != kFree) by_thread[block.thread].push_back(&block);
  }
  for (auto& [thread, blocks] : by_thread) {
    std::ranges::sort(blocks, {}, &Block::stretch);
    ThreadReader reader(static_cast<int32_t>(blocks.front()->tid), &clock, now, &result);
    for (const Block* block : blocks) reader.read(*block);
    reader.finish();
  }
  result.whole_from_ns = keeping->whole_from_ns;
  result.dropped = dropped.load(std::memory_order_relaxed);
  result.clock_error_ns = clock.error_ns();
  return result;
}

void forget_after_fork() noexcept {
  on.store(false, std::memory_order_relaxed);
  mine = {};
  threads.store(0, std::memory_order_relaxed);
  dropped.store(0, std::memory_order_relaxed);
  done_blocks.store(0, std::memory_order_relaxed);
  free_blocks.clear();
  keeping = nullptr;  // not freed: a thread that is not here any more may have been using it
}

}  // namespace kineto_spyre::capture::op_ring
