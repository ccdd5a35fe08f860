// One ring a process. Control (start_ring, stop_ring) and whoever collects take its lock; libaiupti's threads find the
// ring by one pointer, in flight (in_flight.h). The keeper is a thread of the ring's own: it collects, so that frames
// never run out while a program runs as programs do.
#include "capture/ring.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <new>
#include <utility>

#include "capture/clock.h"
#include "capture/in_flight.h"
#include "capture/op_ring.h"
#include "capture/ring_hooks.h"

namespace kineto_spyre::capture {
namespace {

constexpr timespec kShortNap{0, 1'000'000};
constexpr timespec kLongNap{0, 16'000'000};

struct Ring {
  RingConfig config;
  uintptr_t number = 0;
  Frames frames;
  struct Kept {
    uint32_t index;
    Buffer buffer;
    int64_t seen_ns;  // when it was collected: its records are older
  };
  std::deque<Kept> kept;
  RingStatus status;  // but for what callbacks count
  std::atomic<uint64_t> requests_without_buffer{0};
  std::atomic<uint64_t> records_dropped{0};
  std::atomic<uint64_t> uncounted_buffers{0};
  uint64_t drops_before = 0;  // at the last collect()
  bool copies = true;         // to a session
  Ring* older = nullptr;
};

alignas(64) constinit std::atomic<Ring*> lending{nullptr};  // who lends: from start_ring() to stop_lending()
constinit std::atomic<Ring*> running{nullptr};              // whose frames come back: to stop_ring()
constinit std::atomic<Ring*> abandoned{nullptr};            // rings whose frames libaiupti never gave back
constinit uintptr_t rings = 0;                              // so far; under the lock

// The rest is for whoever holds the lock.

void recycle_oldest(Ring& ring) noexcept {
  const Ring::Kept& oldest = ring.kept.front();
  ring.status.whole_from_ns = std::max(ring.status.whole_from_ns, oldest.seen_ns);
  ring.status.kept_bytes -= oldest.buffer.valid;
  ring.frames.recycle(oldest.index);
  ring.kept.pop_front();
}

// Returns how many frames came back.
size_t collect(Ring& ring) noexcept {
  size_t came = 0;
  const int64_t now = unix_ns();
  const uint64_t drops = ring.requests_without_buffer.load(std::memory_order_relaxed) +
                         ring.records_dropped.load(std::memory_order_relaxed) + ring.status.uncounted_buffers;
  if (std::exchange(ring.drops_before, drops) != drops) ring.status.last_drop_ns = now;
  ring.frames.take_returned([&](uint32_t index, const Buffer& buffer) {
    ++came;
    if (ring.copies) copy_to_capture(buffer);
    try {
      ring.kept.push_back({index, buffer, now});
      ring.status.kept_bytes += buffer.valid;
    } catch (const std::bad_alloc&) {
      ++ring.status.uncounted_buffers;
      ring.frames.recycle(index);
    }
  });
  while (!ring.kept.empty() && ring.kept.front().seen_ns < now - ring.config.keep_ns) recycle_oldest(ring);
  // A quarter of the frames is for what is being filled.
  while (ring.kept.size() > ring.frames.count() - std::max<size_t>(1, ring.frames.count() / 4)) {
    recycle_oldest(ring);
    ++ring.status.recycled_early;
  }
  return came;
}

void* run_keeper(void* number) {
  pthread_setname_np(pthread_self(), "kineto-spyre");
  bool touched = false;
  for (;;) {
    size_t came = 0;
    {
      const RingLock lock;
      Ring* ring = running.load(std::memory_order_relaxed);
      if (ring == nullptr || ring->number != reinterpret_cast<uintptr_t>(number)) return nullptr;
      if (!std::exchange(touched, true)) ring->frames.touch_all();
      came = collect(*ring);
      op_ring::collect();
    }
    nanosleep(came > 4 ? &kShortNap : &kLongNap, nullptr);
  }
}

bool start_keeper(const Ring& ring) noexcept {
  sigset_t all, before;  // the program's signals are for the program's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t keeper;
  const bool started = pthread_create(&keeper, nullptr, run_keeper, reinterpret_cast<void*>(ring.number)) == 0;
  if (started) pthread_detach(keeper);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace

bool start_ring(const RingConfig& config, std::string* error) {
  const RingLock lock;
  if (running.load(std::memory_order_relaxed) != nullptr) {
    *error = "The flight recorder runs already.";
    return false;
  }
  try {
    auto ring = std::make_unique<Ring>();
    ring->config = config;
    ring->number = ++rings;
    if (!ring->frames.map(config.budget_bytes, error)) return false;
    ring->status.running = true;
    ring->status.whole_from_ns = unix_ns();
    if (!watch_forks()) throw std::bad_alloc();
    // Sequentially consistent, as both pointers' other uses are (in_flight.h).
    running.store(ring.get(), std::memory_order_seq_cst);
    if (!start_keeper(*ring)) {
      running.store(nullptr, std::memory_order_seq_cst);
      *error = "No thread could be started.";
      return false;
    }
    lending.store(ring.release(), std::memory_order_seq_cst);
    return true;
  } catch (const std::bad_alloc&) {
    *error = "Out of memory.";
    return false;
  }
}

void stop_lending() noexcept {
  lending.store(nullptr, std::memory_order_seq_cst);
  wait_for_callbacks();
}

void stop_ring() noexcept {
  stop_lending();
  const RingLock lock;
  Ring* ring = running.load(std::memory_order_relaxed);
  if (ring == nullptr) return;
  collect(*ring);
  running.store(nullptr, std::memory_order_seq_cst);
  wait_for_callbacks();
  if (!ring->frames.any_lent()) {
    delete ring;
    return;
  }
  // Its borrower may still write there. What it gives back belongs to nobody, and is counted as such.
  ring->older = abandoned.load(std::memory_order_relaxed);
  abandoned.store(ring, std::memory_order_relaxed);
}

bool ring_is_running() noexcept { return running.load(std::memory_order_relaxed) != nullptr; }

void collect_ring() noexcept {
  const RingLock lock;
  if (Ring* ring = running.load(std::memory_order_relaxed)) {
    collect(*ring);
    op_ring::collect();
  }
}

void copy_to_session(bool on) noexcept {
  const RingLock lock;
  Ring* ring = running.load(std::memory_order_relaxed);
  if (ring == nullptr) return;
  collect(*ring);
  ring->copies = on;
}

RingStatus ring_status() noexcept {
  const RingLock lock;
  Ring* ring = running.load(std::memory_order_relaxed);
  if (ring == nullptr) return {};
  RingStatus status = ring->status;
  status.kept_buffers = ring->kept.size();
  status.requests_without_buffer = ring->requests_without_buffer.load(std::memory_order_relaxed);
  status.records_dropped = ring->records_dropped.load(std::memory_order_relaxed);
  status.uncounted_buffers += ring->uncounted_buffers.load(std::memory_order_relaxed);
  return status;
}

CaptureResult snapshot_ring() {
  const RingLock lock;
  Copies copies;
  if (Ring* ring = running.load(std::memory_order_relaxed)) {
    collect(*ring);
    for (const Ring::Kept& kept : ring->kept) copies.add(kept.buffer);
  }
  return result_of(std::move(copies));
}

// ---------------------------------------------------------------------------------------------------------------------
// For callbacks in flight. Sequentially consistent loads: see in_flight.h.

bool ring_lends() noexcept { return lending.load(std::memory_order_seq_cst) != nullptr; }

Buffer lend_frame() noexcept {
  Ring* ring = lending.load(std::memory_order_seq_cst);
  if (ring == nullptr) return {nullptr, 0, 0};
  const Buffer buffer = ring->frames.lend();
  if (buffer.data == nullptr) ring->requests_without_buffer.fetch_add(1, std::memory_order_relaxed);
  return buffer;
}

Frames::Completion complete_frame(uint8_t* buffer, size_t valid) noexcept {
  Ring* ring = running.load(std::memory_order_seq_cst);
  return ring != nullptr ? ring->frames.complete(buffer, valid) : Frames::Completion::kUnknown;
}

CountRecords ring_count_records() noexcept {
  const Ring* ring = running.load(std::memory_order_seq_cst);
  return ring != nullptr ? ring->config.count_records : nullptr;
}

void add_ring_drops(uint64_t records, bool uncounted) noexcept {
  Ring* ring = running.load(std::memory_order_seq_cst);
  if (ring == nullptr) return;
  ring->records_dropped.fetch_add(records, std::memory_order_relaxed);
  ring->uncounted_buffers.fetch_add(uncounted ? 1 : 0, std::memory_order_relaxed);
}

// The frames' memory stays: a thread that is not here any more may have been using it.
void forget_ring_after_fork() noexcept {
  lending.store(nullptr, std::memory_order_relaxed);
  running.store(nullptr, std::memory_order_relaxed);
  op_ring::forget_after_fork();
  ring_locked.store(false, std::memory_order_relaxed);
}

}  // namespace kineto_spyre::capture
