#include "filler.h"

#include <algorithm>

#include "process.h"
#include "record_sizes.h"
#include "spyre_emulator/clock.h"
#include "spyre_emulator/faults.h"

namespace kineto_spyre::emulator {

Filler::Filler()
    : current_({[](Buffer* buffer) { return process().client.request(buffer); }, complete, size_of_record}) {
  held_.reserve(64);
}

// The current buffer's, and those of threads that have their own. With the mutex.
void Filler::complete(const Buffer& buffer, size_t valid, Shape shape) {
  Process& p = process();
  p.iterator.set_shape(buffer.data, shape);
  const Faults* faults = current_faults();
  const bool hold = faults != nullptr && (faults->swap_buffers || faults->complete_late_ns != 0);
  if (hold || !p.filler.held_.empty()) {  // nobody overtakes one that is held back
    p.filler.held_.push_back({buffer, valid, host_now_ns()});
  } else {
    p.client.complete(buffer, valid);
  }
}

// Fills what is staged; without records of that kind, if there is one.
void Filler::take_staged(const uint8_t* without) {
  Process& p = process();
  Staged staged;
  while (p.staging.pop(&staged)) {
    auto* const chunk = static_cast<Chunk*>(staged.buffer.chunk);
    const Shape shape = chunk == nullptr ? p.writers.shape_of(staged.buffer.data) : chunk->shape;
    size_t valid = staged.valid;
    if (without != nullptr) valid = remove_kind(staged.buffer.data, valid, shape, size_of_record, *without);
    if (chunk == nullptr) {
      complete(staged.buffer, valid, shape);
      continue;
    }
    const uint64_t dropped = current_.append(staged.buffer.data, valid, shape);
    if (dropped != 0) p.dropped.fetch_add(dropped, std::memory_order_relaxed);
    p.staging.put_back(chunk);
  }
}

bool Filler::fill(bool flushing) {
  Process& p = process();
  std::lock_guard lock(mutex_);
  if (flushing || p.enabled.load(std::memory_order_relaxed) != 0) take_staged(nullptr);
  if (flushing) {
    current_.close();
    p.client.count_anew();
    const Faults* faults = current_faults();
    if (faults != nullptr && faults->rotate_at_flush) current_.open();
  }
  release_held(flushing);
  return !held_.empty();
}

void Filler::discard(uint8_t kind) {
  std::lock_guard lock(mutex_);
  take_staged(&kind);
  current_.remove(kind);
}

void Filler::close() {
  std::lock_guard lock(mutex_);
  process().client.close();
}

void Filler::release_held(bool flushing) {
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->swap_buffers) {
    if (!flushing) return;
    std::reverse(held_.begin(), held_.end());
  }
  const uint64_t late = faults == nullptr ? 0 : faults->complete_late_ns;
  const uint64_t now = late == 0 ? 0 : host_now_ns();
  size_t kept = 0;
  for (const Held& held : held_) {
    if (late != 0 && now < held.completed_ns + late) {
      held_[kept++] = held;
    } else {
      process().client.complete(held.buffer, held.valid);
    }
  }
  held_.resize(kept);
}

}  // namespace kineto_spyre::emulator
