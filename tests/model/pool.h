// The pool of csrc/capture/pool.h itself, over static memory, as the model checker runs it.
#pragma once

#include <assert.h>
#include <pthread.h>

#include "capture/pool.h"

namespace kineto_spyre::capture {

constexpr size_t kMost = 3;              // buffers of one granule each
inline uint64_t model_cells[kMost * 4];  // of 32 bytes
inline uint64_t model_records[kMost * Pool::kGranule / 8];

inline bool Pool::map(size_t budget_bytes, size_t buffer_bytes, std::string*) {
  budget_ = budget_bytes;
  buffer_bytes_ = buffer_bytes;
  records_.use(model_records, budget_bytes);
  cells_.use(model_cells, sizeof(model_cells));
  return true;
}

}  // namespace kineto_spyre::capture

using kineto_spyre::capture::Buffer;
using kineto_spyre::capture::Pool;

inline Pool pool;

inline void start(size_t buffers) { pool.map(buffers * Pool::kGranule, Pool::kGranule, nullptr); }

// One record: a plain store, so that the checker sees a race if nothing orders it against its reader.
inline uint64_t& record_of(const Buffer& buffer) { return *reinterpret_cast<uint64_t*>(buffer.data); }

inline bool produce(uint64_t value) {
  const Buffer buffer = pool.lend();
  if (buffer.data == nullptr) return false;
  record_of(buffer) = value;
  assert(pool.complete(buffer.data, 8) == Pool::Completion::kTaken);
  return true;
}

inline pthread_t run(void* (*body)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, nullptr, body, argument);
  return thread;
}
