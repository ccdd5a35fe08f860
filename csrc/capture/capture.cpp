// One capture of a process: its states, its helper thread, what happens to it in a fork.
//
//   prepare()  idle -> armed        open_window()  armed -> recording        close_window()  recording -> closed
//   take_result(), abandon()  any of the three -> idle
//
// Control (the above) is one thread at a time: a compare-and-swap to `busy` keeps others out, and says so, instead of
// making them wait. No lock exists, so none can be held across a fork.
//
// libaiupti's callbacks come from any thread. They count themselves in and out of the room (`visitors`). Who wants to
// take the capture away first unlinks it, then waits until the room is empty: a callback that counted itself in before
// is waited for, one that did so after finds nothing.
//
//    callback                          take_result()
//    visitors += 1   (seq_cst)         current = null     (seq_cst)
//    c = current     (seq_cst)         wait until visitors == 0 (seq_cst; acquire: partner of the release below)
//    use c                             c is ours alone
//    visitors -= 1   (release)
//
// Buffers that libaiupti still holds at the end stay in memory, for it may write to them any time, and are watched
// for in the attic, where a late completion finds them. What came home is freed at the next prepare().
#include "capture/capture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <utility>

#include "capture/clock.h"
#include "capture/op_events.h"
#include "capture/pool.h"

namespace kineto_spyre::capture {
namespace {

// How much memory waits for records, and for notes, at the least. At 5 million compute records a second (1.2 GB/s) it
// lasts 13 ms, three of the helper's naps.
constexpr size_t kRecordsAhead = size_t{16} << 20;
constexpr size_t kNotesAhead = size_t{1} << 20;
constexpr timespec kNap{0, 4'000'000};

}  // namespace

// A capture is what is harvested from the start: nothing has to be allocated when it ends.
struct CaptureResult::Impl {
  Config config;
  uintptr_t number = 0;  // of the capture, in this process
  Pool* pool = nullptr;
  std::unique_ptr<OpEventStore> notes;  // until they are collected
  ClockPoint opened{};
  ClockPoint closed{};
  std::atomic<uint64_t> requests_without_buffer{0};
  std::atomic<uint64_t> oversized{0};

  std::vector<ThreadOpEvents> threads;
  Drops drops;
  double clock_error_ns = 0;

  ~Impl();
};

namespace {

using Capture = CaptureResult::Impl;

enum class Phase : uint32_t { kIdle, kBusy, kArmed, kRecording, kClosed };

constinit std::atomic<Phase> phase{Phase::kIdle};
constinit Capture* owned = nullptr;  // for whoever holds the phase; null in a child of a fork
constinit uintptr_t captures = 0;    // so far; for whoever holds the phase
alignas(64) constinit std::atomic<Capture*> current{nullptr};
alignas(64) constinit std::atomic<uint32_t> visitors{0};

// Completions that belong to no capture. Whoever harvests next reports them.
constinit std::atomic<uint64_t> unknown_buffers{0};
constinit std::atomic<uint64_t> late_completions{0};

// Pools of past captures: buffers may still come home to them.
struct AtticPlace {
  std::atomic<Pool*> pool{nullptr};    // put here by control; taken away by the end of its CaptureResult, or by control later
  std::atomic<bool> abandoned{false};  // its CaptureResult is gone: once all buffers are home it may be freed
};
constinit std::array<AtticPlace, 64> attic;

class Visit {
 public:
  // Sequentially consistent: see above.
  Visit() noexcept { visitors.fetch_add(1, std::memory_order_seq_cst); }
  ~Visit() { visitors.fetch_sub(1, std::memory_order_release); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

void wait_for_visitors() noexcept {
  while (visitors.load(std::memory_order_seq_cst) != 0) sched_yield();
}

// ---------------------------------------------------------------------------------------------------------------------
// The helper thread: memory ahead of need. It comes to see the capture now and then, as a visitor like any other, and
// ends by itself when it finds that the capture is gone: whoever stops a session waits for no thread to wake up.

void touch_ahead(Capture& capture) noexcept {
  capture.pool->touch_ahead(kRecordsAhead);
  if (capture.notes) capture.notes->touch_ahead(kNotesAhead);
}

void* run_helper(void* number) {
  pthread_setname_np(pthread_self(), "kineto-spyre");
  for (;;) {
    nanosleep(&kNap, nullptr);
    const Visit visit;
    Capture* capture = current.load(std::memory_order_seq_cst);
    if (capture == nullptr || capture->number != reinterpret_cast<uintptr_t>(number)) return nullptr;
    touch_ahead(*capture);
  }
}

// Without a helper the capture is as complete, only slower: no reason to fail.
void start_helper(const Capture& capture) noexcept {
  // The program's signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t helper;
  if (pthread_create(&helper, nullptr, run_helper, reinterpret_cast<void*>(capture.number)) == 0) {
    pthread_detach(helper);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// ---------------------------------------------------------------------------------------------------------------------
// Fork: the child has this thread alone and starts off and empty. What the parent was doing is not its business, so
// nothing is freed: a thread that no longer exists may have been in the middle of using it.

void in_child() noexcept {
  forget_op_events_after_fork();
  current.store(nullptr, std::memory_order_relaxed);
  owned = nullptr;
  visitors.store(0, std::memory_order_relaxed);
  unknown_buffers.store(0, std::memory_order_relaxed);
  late_completions.store(0, std::memory_order_relaxed);
  for (AtticPlace& place : attic) place.pool.store(nullptr, std::memory_order_relaxed);
  phase.store(Phase::kIdle, std::memory_order_relaxed);
}

bool watch_forks() noexcept {
  static const bool watching = pthread_atfork(nullptr, nullptr, in_child) == 0;
  return watching;
}

// ---------------------------------------------------------------------------------------------------------------------
// The attic.

// Called by control. If it is full, late completions don't find the pool, and it is not freed if there may be some.
void put_in_attic(Pool* pool) noexcept {
  for (AtticPlace& place : attic) {
    if (place.pool.load(std::memory_order_relaxed) != nullptr) continue;
    place.abandoned.store(false, std::memory_order_relaxed);
    // Sequentially consistent, as all of the attic's pools: partner is the load in find_in_attic().
    place.pool.store(pool, std::memory_order_seq_cst);
    return;
  }
}

// Called by control: frees what came home.
void sweep_attic() noexcept {
  for (AtticPlace& place : attic) {
    Pool* pool = place.pool.load(std::memory_order_relaxed);
    // Acquire: what the end of its CaptureResult did to the pool; partner is the release in ~Impl().
    if (pool == nullptr || !place.abandoned.load(std::memory_order_acquire) || pool->stranded() != 0) continue;
    place.pool.store(nullptr, std::memory_order_seq_cst);
    wait_for_visitors();
    delete pool;
  }
}

// Called by visitors.
bool find_in_attic(uint8_t* buffer) noexcept {
  for (AtticPlace& place : attic) {
    Pool* pool = place.pool.load(std::memory_order_seq_cst);
    if (pool != nullptr && pool->contains(buffer)) return pool->complete_late(buffer);
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Control.

bool take_phase(Phase from) noexcept { return phase.compare_exchange_strong(from, Phase::kBusy); }

bool take_phase_of_capture() noexcept {
  return take_phase(Phase::kArmed) || take_phase(Phase::kRecording) || take_phase(Phase::kClosed);
}

void close(Capture& capture) noexcept {
  close_op_events();
  capture.closed = clock_point();
}

// Null, with a sentence in *error. Throws std::bad_alloc.
std::unique_ptr<Capture> make_capture(const Config& config, std::string* error) {
  auto capture = std::make_unique<Capture>();
  capture->config = config;
  capture->pool = new Pool;
  if (!capture->pool->map(config.budget_bytes, config.buffer_bytes, error)) return nullptr;
  if (config.op_events && prepare_op_events()) {
    capture->notes = std::make_unique<OpEventStore>();
    if (!capture->notes->map(std::max(config.budget_bytes / 4, kNotesAhead), error)) return nullptr;
  }
  return capture;
}

// Ends the capture that control holds; null if it is not ours any more.
std::unique_ptr<Capture> take_capture() noexcept {
  std::unique_ptr<Capture> capture(std::exchange(owned, nullptr));
  if (capture->closed.ticks == 0) close(*capture);
  put_in_attic(capture->pool);  // first, so that whoever comes too late finds it there
  current.store(nullptr, std::memory_order_seq_cst);
  wait_for_visitors();
  capture->pool->seal();
  return capture;
}

}  // namespace

bool prepare(const Config& config, std::string* error) {
  if (!take_phase(Phase::kIdle)) {
    *error = "Another profiling session is under way in this process, and libaiupti serves one at a time.";
    return false;
  }
  std::unique_ptr<Capture> capture;
  try {
    sweep_attic();
    if (!watch_forks()) throw std::bad_alloc();
    capture = make_capture(config, error);
  } catch (const std::bad_alloc&) {
    *error = "Out of memory.";  // short enough to need none
  }
  if (!capture) {
    phase.store(Phase::kIdle);
    return false;
  }
  touch_ahead(*capture);
  capture->number = ++captures;
  owned = capture.release();
  current.store(owned, std::memory_order_seq_cst);
  start_helper(*owned);
  phase.store(Phase::kArmed);
  return true;
}

void open_window() {
  if (!take_phase(Phase::kArmed)) return;
  Capture& capture = *owned;
  capture.pool->take_returned([&](uint32_t index, const Buffer&) { capture.pool->recycle(index); });
  capture.requests_without_buffer.store(0, std::memory_order_relaxed);
  capture.oversized.store(0, std::memory_order_relaxed);
  take_unattributed_drops();
  capture.opened = clock_point();
  if (capture.notes) open_op_events(capture.notes.get());
  phase.store(Phase::kRecording);
}

void close_window() {
  if (!take_phase(Phase::kRecording)) return;
  close(*owned);
  phase.store(Phase::kClosed);
}

CaptureResult take_result() {
  if (!take_phase_of_capture()) return {};
  std::unique_ptr<Capture> capture = take_capture();
  Drops& drops = capture->drops;
  drops.requests_without_buffer = capture->requests_without_buffer.load(std::memory_order_relaxed);
  drops.oversized = capture->oversized.load(std::memory_order_relaxed);
  drops.unknown_buffers = unknown_buffers.exchange(0, std::memory_order_relaxed);
  drops.late_completions = late_completions.exchange(0, std::memory_order_relaxed);
  drops.buffers_not_returned = capture->pool->stranded();
  drops.op_events_dropped = take_unattributed_drops();
  if (capture->notes) {
    drops.op_events_dropped += capture->notes->dropped();
    const TickConverter clock(capture->opened, capture->closed);
    capture->clock_error_ns = clock.error_ns();
    try {
      capture->threads = capture->notes->collect(clock);
    } catch (const std::bad_alloc&) {
      drops.op_events_dropped += capture->notes->count();
    }
    capture->notes.reset();
  }
  phase.store(Phase::kIdle);
  return CaptureResult(capture.release());
}

void abandon() {
  if (!take_phase_of_capture()) return;
  take_capture();
  phase.store(Phase::kIdle);
}

bool armed() {
  const Phase now = phase.load(std::memory_order_relaxed);
  return now == Phase::kArmed || now == Phase::kRecording || now == Phase::kClosed;
}

// ---------------------------------------------------------------------------------------------------------------------
// libaiupti's callbacks.

void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) noexcept {
  const Visit visit;
  Capture* capture = current.load(std::memory_order_seq_cst);
  const Buffer lent = capture != nullptr ? capture->pool->lend() : Buffer{};
  if (capture != nullptr && lent.data == nullptr) capture->requests_without_buffer.fetch_add(1, std::memory_order_relaxed);
  if (buffer != nullptr) *buffer = lent.data;
  if (size != nullptr) *size = lent.size;
  if (max_records != nullptr) *max_records = capture != nullptr ? capture->config.max_records : 0;
}

void on_buffer_completed(uint8_t* buffer, size_t /*size*/, size_t valid) noexcept {
  const Visit visit;
  Capture* capture = current.load(std::memory_order_seq_cst);
  if (capture != nullptr && capture->pool->contains(buffer)) {
    switch (capture->pool->complete(buffer, valid)) {
      case Pool::Completion::kTaken:
        return;
      case Pool::Completion::kOversized:
        capture->oversized.fetch_add(1, std::memory_order_relaxed);
        return;
      case Pool::Completion::kUnknown:
        unknown_buffers.fetch_add(1, std::memory_order_relaxed);
        return;
    }
  }
  (find_in_attic(buffer) ? late_completions : unknown_buffers).fetch_add(1, std::memory_order_relaxed);
}

// ---------------------------------------------------------------------------------------------------------------------
// What was harvested.

CaptureResult::Impl::~Impl() {
  if (pool == nullptr) return;
  AtticPlace* mine = nullptr;  // none, if the capture never began, or in a child of a fork
  for (AtticPlace& place : attic) {
    if (place.pool.load(std::memory_order_relaxed) == pool) mine = &place;
  }
  if (pool->stranded() == 0) {
    if (mine != nullptr) {
      mine->pool.store(nullptr, std::memory_order_seq_cst);
      wait_for_visitors();
    }
    delete pool;
  } else {
    pool->drop_records();
    // Release: partner is the acquire in sweep_attic().
    if (mine != nullptr) mine->abandoned.store(true, std::memory_order_release);
  }
}

void CaptureResult::Delete::operator()(Impl* impl) const { delete impl; }

CaptureResult::CaptureResult() = default;
CaptureResult::CaptureResult(Impl* impl) : impl_(impl) {}
CaptureResult::CaptureResult(CaptureResult&&) noexcept = default;
CaptureResult& CaptureResult::operator=(CaptureResult&&) noexcept = default;
CaptureResult::~CaptureResult() = default;

std::span<const Buffer> CaptureResult::buffers() const { return impl_ ? impl_->pool->buffers() : std::span<const Buffer>(); }

std::span<const ThreadOpEvents> CaptureResult::threads() const {
  return impl_ ? std::span<const ThreadOpEvents>(impl_->threads) : std::span<const ThreadOpEvents>();
}

const Drops& CaptureResult::drops() const {
  static constexpr Drops kNone{};
  return impl_ ? impl_->drops : kNone;
}

double CaptureResult::clock_error_ns() const { return impl_ ? impl_->clock_error_ns : 0; }

void CaptureResult::free_op_events() {
  if (impl_) std::vector<ThreadOpEvents>().swap(impl_->threads);
}

}  // namespace kineto_spyre::capture
