#include "record_iterator.h"

#include "record_sizes.h"
#include "spyre_emulator/faults.h"

namespace kineto_spyre::emulator {

thread_local RecordIterator::Place* RecordIterator::t_place __attribute__((tls_model("initial-exec"))) = nullptr;

void RecordIterator::forget() { t_place = nullptr; }

void RecordIterator::set_shape(const uint8_t* buffer, Shape shape) {
  if (shape == Shape{} && !any_odd_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (shape == Shape{}) {
    odd_shapes_.erase(buffer);
  } else {
    odd_shapes_[buffer] = shape;
    any_odd_.store(true, std::memory_order_relaxed);
  }
}

RecordIterator::Place* RecordIterator::find_or_begin(const uint8_t* buffer) {
  std::lock_guard lock(mutex_);
  Place* place = nullptr;
  for (const auto& candidate : places_) {
    const uint8_t* const of = candidate->buffer.load(std::memory_order_relaxed);
    if (of == buffer) return candidate.get();
    if (of == nullptr) place = candidate.get();
  }
  if (place == nullptr) place = places_.emplace_back(std::make_unique<Place>()).get();
  place->offset = 0;
  const auto found = odd_shapes_.find(buffer);
  place->shape = found == odd_shapes_.end() ? Shape{} : found->second;
  place->buffer.store(buffer, std::memory_order_release);  // partner: next()'s acquire
  return place;
}

AIUpti_ResultTypes RecordIterator::end(Place* place) {
  place->buffer.store(nullptr, std::memory_order_release);  // partner: next()'s acquire
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->end_code != 0) return static_cast<AIUpti_ResultTypes>(faults->end_code);
  return AIUPTI_ERROR_MAX_LIMIT_REACHED;
}

AIUpti_ResultTypes RecordIterator::next(uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
  Place* place = t_place;
  // Partner: the releases in find_or_begin() and end().
  if (place == nullptr || place->buffer.load(std::memory_order_acquire) != buffer) [[unlikely]] {
    place = t_place = find_or_begin(buffer);
  }
  if (place->offset >= valid) {
    *record = nullptr;
    return end(place);
  }
  uint8_t* const at = buffer + place->offset;
  const size_t bytes = size_of(*at, place->shape);
  if (bytes == 0) {
    // Nobody knows where the next one begins. The iteration has one more step to its end.
    place->offset = valid;
    *record = nullptr;
    return AIUPTI_ERROR_INVALID_KIND;
  }
  place->offset += bytes;
  *record = reinterpret_cast<AIUpti_Activity*>(at);
  return AIUPTI_SUCCESS;
}

}  // namespace kineto_spyre::emulator
