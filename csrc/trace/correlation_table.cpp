#include "trace/correlation_table.h"

#include <new>

namespace kineto_spyre::trace {

void CorrelationTable::turn_to(uint64_t number) {
  current_ = number;
  launches_ = reinterpret_cast<Launch*>(segments_[number].data());
}

Launch* CorrelationTable::find_elsewhere(uint64_t id, uint64_t index) {
  if (index < kNear && has_segment(index / kSegment)) {
    turn_to(index / kSegment);
    return find(id);
  }
  const auto found = far_.find(id);
  return found != far_.end() && found->second.event != nullptr ? &found->second : nullptr;
}

Launch& CorrelationTable::get_elsewhere(uint64_t id, uint64_t index) {
  const uint64_t number = index / kSegment;
  if (index < kNear && has_segment(number)) {
    turn_to(number);
    return get(id);
  }
  // A new segment only for ids that are near, and while segments are well used.
  const bool worth_it = in_use_ < 8 || in_use_ < count_ / (kSegment / 16);
  if (index >= kNear || !worth_it) return far_[id];
  if (number >= segments_.size()) segments_.resize(number + 1);
  // Most of it will be used if as many ids as that are still to come.
  constexpr size_t kBytes = kSegment * sizeof(Launch);
  const bool sure = expected_ > count_ + kSegment / 2;
  capture::PrefaultedRegion::Options options;
  options.alignment = alignof(Launch);
  options.sure = sure ? kBytes : 0;
  if (!segments_[number].map(kBytes, options)) throw std::bad_alloc();
  ++in_use_;
  turn_to(number);
  // What was put elsewhere before there was this segment.
  for (auto far = far_.begin(); far != far_.end();) {
    const uint64_t far_index = far->first - base_;
    if (far_index / kSegment == number) {
      launches_[far_index % kSegment] = far->second;
      far = far_.erase(far);
    } else {
      ++far;
    }
  }
  return get(id);
}

uint32_t CorrelationTable::number_far(uint64_t id) {
  constexpr auto first = static_cast<uint32_t>(kNear);
  return numbers_.try_emplace(id, first + static_cast<uint32_t>(numbers_.size())).first->second;
}

}  // namespace kineto_spyre::trace
