// One capture of a process: its states, its helper thread, what happens to it in a fork.
//
//   prepare()  idle -> armed        open_window()  armed -> recording        close_window()  recording -> closed
//   take_result(), abandon()  any of the three -> idle
//
// Control (the above) is one thread at a time: a compare-and-swap to `busy` keeps others out, and says so, instead of
// making them wait. No lock exists, so none can be held across a fork.
//
// libaiupti's callbacks come from any thread. Whoever takes the capture away from them unlinks it and waits for those
// that are in flight (in_flight.h). Buffers that libaiupti still holds at the end stay in memory, for it may write to
// them any time, and are watched for (retired_pools.h): what comes back in a later session belongs to that one.
#include "capture/capture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "capture/current.h"
#include "capture/in_flight.h"
#include "capture/retired_pools.h"
#include "capture/ring_hooks.h"

namespace kineto_spyre::capture {
namespace {

// How much memory waits for records, and for op events, at the least. At 5 million compute records a second (1.2 GB/s)
// it lasts 13 ms, three of the helper's naps.
constexpr size_t kRecordsAhead = size_t{16} << 20;
constexpr size_t kOpEventsAhead = size_t{1} << 20;
constexpr timespec kNap{0, 4'000'000};

}  // namespace

namespace {

enum class Phase : uint32_t { kIdle, kBusy, kArmed, kRecording, kClosed };

constinit std::atomic<Phase> phase{Phase::kIdle};
constinit Capture* owned = nullptr;  // for whoever holds the phase; null in a child of a fork
constinit uintptr_t captures = 0;    // so far; for whoever holds the phase

// ---------------------------------------------------------------------------------------------------------------------
// The helper thread: memory ahead of need. It comes to see the capture now and then, in flight as a callback is, and
// ends by itself when it finds that the capture is gone: whoever stops a session waits for no thread to wake up.

void touch_ahead(Capture& capture) noexcept {
  capture.pool->touch_ahead(kRecordsAhead);
  if (capture.op_events) capture.op_events->touch_ahead(kOpEventsAhead);
}

void* run_helper(void* number) {
  pthread_setname_np(pthread_self(), "kineto-spyre");
  for (;;) {
    nanosleep(&kNap, nullptr);
    const InFlight in_flight;
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
  callbacks_in_flight.store(0, std::memory_order_relaxed);
  unknown_buffers.store(0, std::memory_order_relaxed);
  forget_ring_after_fork();
  retired_pools::forget_after_fork();
  scratch_buffers.forget_after_fork();
  phase.store(Phase::kIdle, std::memory_order_relaxed);
}

}  // namespace

bool watch_forks() noexcept {
  static const bool watching = pthread_atfork(nullptr, nullptr, in_child) == 0;
  return watching;
}

namespace {

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
  capture->pool = std::make_shared<Pool>();
  if (!capture->pool->map(config.budget_bytes, config.buffer_bytes, error)) return nullptr;
  if (config.op_events && prepare_op_events()) {
    capture->op_events = std::make_unique<OpEventStore>();
    if (!capture->op_events->map(std::max(config.budget_bytes / 4, kOpEventsAhead), error)) return nullptr;
  }
  return capture;
}

// What came back between two sessions belongs to neither, and what came back before a window is warm-up's. Returns how
// many buffers.
uint64_t discard_late() {
  uint64_t discarded = 0;
  retired_pools::collect([&](const std::shared_ptr<Pool>& pool, uint32_t index, const Buffer&) {
    pool->release(index);
    ++discarded;
  });
  return discarded;
}

// Buffers of earlier sessions come first: they were lent before. What there is no memory for is counted.
void take_late(Capture& capture) noexcept {
  retired_pools::collect([&](const std::shared_ptr<Pool>& pool, uint32_t index, const Buffer& buffer) {
    try {
      capture.buffers.reserve(capture.buffers.size() + 1);
      capture.late.push_back({pool, index});
      capture.buffers.push_back(buffer);
    } catch (const std::bad_alloc&) {
      pool->release(index);
      ++capture.drops.buffers_not_returned;
    }
  });
  if (capture.buffers.empty() && capture.copies.buffers.empty()) return;
  const std::span<const Buffer> own = capture.pool->buffers();
  const std::vector<Buffer>& copies = capture.copies.buffers;
  try {
    capture.buffers.insert(capture.buffers.end(), own.begin(), own.end());
    capture.buffers.insert(capture.buffers.end(), copies.begin(), copies.end());
  } catch (const std::bad_alloc&) {  // then the own ones are what is kept
    capture.drops.buffers_not_returned += capture.buffers.size();
    capture.buffers.clear();
  }
}

// Ends the capture that control holds.
std::unique_ptr<Capture> take_capture() noexcept {
  std::unique_ptr<Capture> capture(std::exchange(owned, nullptr));
  if (capture->closed.ticks == 0) close(*capture);
  retired_pools::add(capture->pool);  // first, so that whoever comes too late finds it there
  current.store(nullptr, std::memory_order_seq_cst);
  wait_for_callbacks();
  capture->pool->seal();
  return capture;
}

}  // namespace

bool prepare(const Config& config, std::string* error) {
  if (!take_phase(Phase::kIdle)) {
    *error = "Another profiling session runs in this process, and libaiupti serves one at a time.";
    return false;
  }
  std::unique_ptr<Capture> capture;
  try {
    retired_pools::sweep();
    if (!watch_forks()) throw std::bad_alloc();
    capture = make_capture(config, error);
  } catch (const std::bad_alloc&) {
    *error = "Out of memory.";  // short enough to need none
  }
  if (!capture) {
    phase.store(Phase::kIdle);
    return false;
  }
  capture->drops.late_completions = discard_late();
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
  {
    const RingLock lock;
    capture.copies = {};
  }
  discard_late();
  for (std::atomic<uint64_t>* count :
       {&capture.requests_without_buffer, &capture.records_dropped, &capture.uncounted_buffers, &capture.oversized}) {
    count->store(0, std::memory_order_relaxed);
  }
  take_unattributed_drops();
  capture.opened = clock_point();
  if (capture.op_events) open_op_events(capture.op_events.get());
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
  take_late(*capture);
  Drops& drops = capture->drops;
  drops.requests_without_buffer = capture->requests_without_buffer.load(std::memory_order_relaxed);
  drops.records_dropped = capture->records_dropped.load(std::memory_order_relaxed);
  drops.uncounted_buffers = capture->uncounted_buffers.load(std::memory_order_relaxed);
  drops.oversized = capture->oversized.load(std::memory_order_relaxed);
  drops.unknown_buffers = unknown_buffers.exchange(0, std::memory_order_relaxed);
  drops.buffers_not_returned += capture->pool->not_returned();
  drops.op_events_dropped = take_unattributed_drops();
  if (capture->op_events) {
    drops.op_events_dropped += capture->op_events->dropped();
    const TickConverter clock(capture->opened, capture->closed);
    capture->clock_error_ns = clock.error_ns();
    try {
      capture->threads = capture->op_events->collect(clock);
    } catch (const std::bad_alloc&) {
      drops.op_events_dropped += capture->op_events->count();
    }
    capture->op_events.reset();
  }
  retired_pools::sweep();
  phase.store(Phase::kIdle);
  return CaptureResult(capture.release());
}

void abandon() {
  if (!take_phase_of_capture()) return;
  take_capture();
  retired_pools::sweep();
  phase.store(Phase::kIdle);
}

bool armed() {
  const Phase now = phase.load(std::memory_order_relaxed);
  return now == Phase::kArmed || now == Phase::kRecording || now == Phase::kClosed;
}

// ---------------------------------------------------------------------------------------------------------------------
// The result.

CaptureResult::Impl::~Impl() {
  for (const Late& buffer : late) buffer.pool->release(buffer.index);
  // If libaiupti holds a buffer of it, the pool stays, without what is ours. Otherwise this is its end.
  if (pool != nullptr && pool.use_count() > 1) pool->drop_records();
}

void CaptureResult::Delete::operator()(Impl* impl) const { delete impl; }

CaptureResult::CaptureResult() = default;
CaptureResult::CaptureResult(Impl* impl) : impl_(impl) {}
CaptureResult::CaptureResult(CaptureResult&&) noexcept = default;
CaptureResult& CaptureResult::operator=(CaptureResult&&) noexcept = default;
CaptureResult::~CaptureResult() = default;

std::span<const Buffer> CaptureResult::buffers() const {
  if (!impl_) return {};
  if (impl_->buffers.empty() && impl_->pool != nullptr) return impl_->pool->buffers();
  return impl_->buffers;
}

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
