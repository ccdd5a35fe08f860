// libaiupti's callbacks: from whom a buffer is lent, and to whom one goes back; and the flight recorder's copies for
// the session that is under way.
//
// A ring that lends (ring.h) goes before the session's pool; what comes back finds its owner by its address.
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "capture/current.h"
#include "capture/in_flight.h"
#include "capture/retired_pools.h"
#include "capture/ring_hooks.h"

namespace kineto_spyre::capture {
namespace {

// What is in it belongs to no trace. Without a session and a ring nobody asks how many that were.
void complete_scratch(Capture* capture, uint8_t* buffer, size_t valid) noexcept {
  CountRecords count = capture != nullptr ? capture->config.count_records : nullptr;
  if (count == nullptr) count = ring_count_records();
  ScratchBuffers::Dropped dropped = scratch_buffers.complete(
      buffer, valid, [&](uint8_t* data, size_t bytes) { return count != nullptr ? count(data, bytes) : 0; });
  if (count == nullptr) dropped.uncounted = valid != 0;
  add_ring_drops(dropped.records, dropped.uncounted);
  if (capture == nullptr) return;
  if (dropped.records != 0) capture->records_dropped.fetch_add(dropped.records, std::memory_order_relaxed);
  if (dropped.uncounted) capture->uncounted_buffers.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) noexcept {
  const InFlight in_flight;
  Capture* capture = current.load(std::memory_order_seq_cst);
  Buffer lent{};
  if (ring_lends()) {
    lent = lend_frame();
  } else if (capture != nullptr) {
    lent = capture->pool->lend();
  }
  if (lent.data == nullptr) {
    lent = {scratch_buffers.lend(), ScratchBuffers::kBytes, 0};
    if (capture != nullptr) capture->requests_without_buffer.fetch_add(1, std::memory_order_relaxed);
  }
  if (buffer != nullptr) *buffer = lent.data;
  if (size != nullptr) *size = lent.size;
  if (max_records != nullptr) *max_records = capture != nullptr ? capture->config.max_records : 0;
}

void on_buffer_completed(uint8_t* buffer, size_t /*size*/, size_t valid) noexcept {
  const InFlight in_flight;
  Capture* capture = current.load(std::memory_order_seq_cst);
  if (scratch_buffers.contains(buffer)) return complete_scratch(capture, buffer, valid);
  switch (complete_frame(buffer, valid)) {
    case Frames::Completion::kTaken:
      return;
    case Frames::Completion::kOversized:
      if (capture != nullptr) capture->oversized.fetch_add(1, std::memory_order_relaxed);
      return;
    case Frames::Completion::kUnknown:
      break;
  }
  const bool own = capture != nullptr && capture->pool->contains(buffer);
  switch (own ? capture->pool->complete(buffer, valid) : retired_pools::complete(buffer, valid)) {
    case Pool::Completion::kTaken:
      return;
    case Pool::Completion::kOversized:
      if (capture != nullptr) capture->oversized.fetch_add(1, std::memory_order_relaxed);
      return;
    case Pool::Completion::kUnknown:
      unknown_buffers.fetch_add(1, std::memory_order_relaxed);
      return;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// For the ring.

// The session's budget is its own. What it has no room for is counted as if libaiupti had got no buffer.
void copy_to_capture(const Buffer& buffer) noexcept {
  const InFlight in_flight;
  Capture* capture = current.load(std::memory_order_seq_cst);
  if (capture == nullptr) return;
  try {
    if (capture->copies.bytes + buffer.valid > capture->config.budget_bytes) throw std::bad_alloc();
    capture->copies.add(buffer);
  } catch (const std::bad_alloc&) {
    const CountRecords count = capture->config.count_records;
    capture->requests_without_buffer.fetch_add(1, std::memory_order_relaxed);
    if (count != nullptr) {
      capture->records_dropped.fetch_add(count(buffer.data, buffer.valid), std::memory_order_relaxed);
    } else {
      capture->uncounted_buffers.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

CaptureResult result_of(Copies copies) {
  auto result = std::make_unique<Capture>();
  result->copies = std::move(copies);
  result->buffers = result->copies.buffers;
  return CaptureResult(result.release());
}

}  // namespace kineto_spyre::capture
