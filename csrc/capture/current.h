// The capture of this process that is under way, for control (capture.cpp) and for callbacks (callbacks.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/copies.h"
#include "capture/op_events.h"
#include "capture/pool.h"
#include "capture/scratch_buffers.h"

namespace kineto_spyre::capture {

// A capture is its own result from the start: nothing has to be allocated when it ends.
struct CaptureResult::Impl {
  Config config;
  uintptr_t number = 0;  // of the capture, in this process
  std::shared_ptr<Pool> pool;
  std::unique_ptr<OpEventStore> op_events;  // until they are collected
  ClockPoint opened{};
  ClockPoint closed{};
  std::atomic<uint64_t> requests_without_buffer{0};
  std::atomic<uint64_t> records_dropped{0};
  std::atomic<uint64_t> uncounted_buffers{0};
  std::atomic<uint64_t> oversized{0};

  struct Late {
    std::shared_ptr<Pool> pool;
    uint32_t index;
  };
  std::vector<Late> late;       // buffers of earlier sessions that came back in this one
  Copies copies;                // of the flight recorder's buffers (ring.h); under its lock until the result is taken
  std::vector<Buffer> buffers;  // those, and then the pool's own; empty: the pool's own alone
  std::vector<ThreadOpEvents> threads;
  Drops drops;
  double clock_error_ns = 0;

  ~Impl();
};

using Capture = CaptureResult::Impl;

alignas(64) inline constinit std::atomic<Capture*> current{nullptr};

// Completions that belong to no capture. Whoever takes a result next reports them.
inline constinit std::atomic<uint64_t> unknown_buffers{0};

inline constinit ScratchBuffers scratch_buffers;

}  // namespace kineto_spyre::capture
