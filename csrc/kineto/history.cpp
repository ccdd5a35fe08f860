#include "kineto/history.h"

#include <utility>

namespace kineto_spyre::kineto {

using trace::JsonObject;

void History::session_began() {
  const std::lock_guard lock(mutex_);
  ++sessions_;
  ++live_;
}

void History::session_over() {
  const std::lock_guard lock(mutex_);
  --live_;
}

bool History::is_recording() const {
  const std::lock_guard lock(mutex_);
  return live_ != 0;
}

void History::set_last_session(std::string json, const RecordSizes& sizes) {
  const std::lock_guard lock(mutex_);
  last_session_ = std::move(json);
  for (size_t kind = 0; kind < sizes.size(); ++kind) {
    if (sizes[kind].seen != 0) sizes_[kind] = sizes[kind];
  }
}

void History::set_last_cost(const Cost& cost) {
  const std::lock_guard lock(mutex_);
  last_cost_ = cost;
}

std::string History::last_session() const {
  const std::lock_guard lock(mutex_);
  return last_session_;
}

void History::add_to(JsonObject& status) const {
  const std::lock_guard lock(mutex_);
  JsonObject records;
  for (size_t i = 0; i < aiupti::kKinds; ++i) {
    const auto kind = static_cast<aiupti::Kind>(i);
    if (aiupti::size_of(kind) == 0) continue;
    JsonObject sizes;
    sizes.number("built", uint64_t{aiupti::size_of(kind)}).number("seen", uint64_t{sizes_[i].seen});
    records.raw(aiupti::kind_name(kind), sizes.str());
  }
  JsonObject cost;
  cost.number("records", last_cost_.records).number("reading_ns", last_cost_.reading_ns);
  cost.number("handing_over_ns", last_cost_.handing_over_ns);
  cost.number("activity_bytes", uint64_t{last_cost_.activity_bytes});
  status.number("sessions", sessions_).raw("records", records.str()).raw("last_stop", cost.str());
}

}  // namespace kineto_spyre::kineto
