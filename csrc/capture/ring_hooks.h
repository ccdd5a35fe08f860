// Between capture.cpp, which has libaiupti's callbacks and the session's capture, and ring.cpp.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capture/capture.h"
#include "capture/copies.h"
#include "capture/frames.h"

namespace kineto_spyre::capture {

using CountRecords = uint64_t (*)(uint8_t* data, size_t valid) noexcept;

// Control's, and that of whoever collects. A flag and no mutex: in a child of a fork it is cleared, whoever held it.
inline constinit std::atomic<bool> ring_locked{false};
class RingLock {
 public:
  RingLock() noexcept {
    // Acquire: partner is the release in the destructor.
    while (ring_locked.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~RingLock() { ring_locked.store(false, std::memory_order_release); }
  RingLock(const RingLock&) = delete;
  RingLock& operator=(const RingLock&) = delete;
};

// ring.cpp, for callbacks in flight.

// Whether a ring lends. A request that gets no frame then is counted by it.
bool ring_lends() noexcept;
Buffer lend_frame() noexcept;
// kUnknown: no frame, or one that is not lent.
Frames::Completion complete_frame(uint8_t* buffer, size_t valid) noexcept;
// Null without a ring.
CountRecords ring_count_records() noexcept;
void add_ring_drops(uint64_t records, bool uncounted) noexcept;
void forget_ring_after_fork() noexcept;

// capture.cpp. False if a fork can't be watched for.
bool watch_forks() noexcept;

// capture.cpp, for whoever holds the ring's lock.

// A copy for the session that is under way; nothing without one.
void copy_to_capture(const Buffer& buffer) noexcept;
// Throws std::bad_alloc.
CaptureResult result_of(Copies copies);

}  // namespace kineto_spyre::capture
