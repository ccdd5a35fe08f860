#include "trace/event.h"

#include <array>
#include <cstring>

#include "trace/text.h"

namespace kineto_spyre::trace {

std::string_view category_name(Category category) {
  constexpr std::array<std::string_view, kCategories> names = {"kernel",  "memcpy", "memset", "memory",
                                                               "runtime", "driver", "prepare"};
  return names[static_cast<size_t>(category)];
}

std::string_view invalid_reason_name(InvalidReason reason) {
  constexpr std::array<std::string_view, kInvalidReasons> names = {
      "start_zero", "end_before_start", "unreasonable_time", "unknown_kind",   "shorter_record",
      "malformed",  "duplicate",        "foreign_process",   "too_many_tracks"};
  return names[static_cast<size_t>(reason)];
}

std::string describe(const Event& event) {
  if (aiupti::kind_of(event.record) == aiupti::Kind::kCompute) {
    return '\'' + safe_text(aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(event.record))) + '\'';
  }
  return std::string(category_name(event.category)) + " with correlation id " +
         std::to_string(aiupti::correlation_id(event.record));
}

bool same_record(const Event& a, const Event& b) {
  const aiupti::Kind kind = aiupti::kind_of(a.record);
  if (kind != aiupti::kind_of(b.record)) return false;
  const bool short_one = a.has(Event::kShort) || b.has(Event::kShort);
  const size_t size = short_one ? aiupti::least_size_of(kind) : aiupti::size_of(kind);
  return std::memcmp(a.record, b.record, size) == 0;
}

EventStore::Block PlainEventStore::allocate() {
  memory_.emplace_back(4096);
  return {reinterpret_cast<std::byte*>(memory_.back().data()), memory_.back().size()};
}

}  // namespace kineto_spyre::trace
