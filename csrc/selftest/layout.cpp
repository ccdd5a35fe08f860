#include "selftest/layout.h"

#include <libaiupti/aiupti_activity.h>

namespace kineto_spyre::selftest {
namespace {

// A release may lack any of these.
#define KINETO_SPYRE_FIELD(name)                                             \
  if constexpr (requires(Record& r) { r.name; }) {                           \
    fields.push_back({#name, offsetof(Record, name), sizeof(Record::name)}); \
  }

template <class Record>
std::vector<Field> fields_of() {
  std::vector<Field> fields;
  KINETO_SPYRE_FIELD(operation_kind)
  KINETO_SPYRE_FIELD(copy_kind)
  KINETO_SPYRE_FIELD(memory_operation_type)
  KINETO_SPYRE_FIELD(cbid)
  KINETO_SPYRE_FIELD(device_id)
  KINETO_SPYRE_FIELD(context_id)
  KINETO_SPYRE_FIELD(stream_id)
  KINETO_SPYRE_FIELD(process_id)
  KINETO_SPYRE_FIELD(thread_id)
  KINETO_SPYRE_FIELD(correlation_id)
  KINETO_SPYRE_FIELD(address)
  KINETO_SPYRE_FIELD(bytes)
  KINETO_SPYRE_FIELD(start)
  KINETO_SPYRE_FIELD(end)
  KINETO_SPYRE_FIELD(queued)
  KINETO_SPYRE_FIELD(submitted)
  KINETO_SPYRE_FIELD(data)
  KINETO_SPYRE_FIELD(name)
  KINETO_SPYRE_FIELD(cycles_ts1)
  KINETO_SPYRE_FIELD(cycles_ts5)
  return fields;
}

#undef KINETO_SPYRE_FIELD

template <class Record>
Layout layout_of(const char* name, std::vector<int> kinds) {
  return {std::move(kinds), name, sizeof(Record), fields_of<Record>()};
}

}  // namespace

std::vector<Layout> layouts() {
  return {layout_of<AIUpti_ActivityCompute>("compute", {AIUPTI_ACTIVITY_KIND_CMPT}),
          layout_of<AIUpti_ActivityMemcpy>("memcpy", {AIUPTI_ACTIVITY_KIND_MEMCPY, AIUPTI_ACTIVITY_KIND_MEMCPY2}),
          layout_of<AIUpti_ActivityMemset>("memset", {AIUPTI_ACTIVITY_KIND_MEMSET}),
          layout_of<AIUpti_ActivityMemory>("memory", {AIUPTI_ACTIVITY_KIND_MEMORY}),
          layout_of<AIUpti_ActivityAPI>("api", {AIUPTI_ACTIVITY_KIND_RUNTIME, AIUPTI_ACTIVITY_KIND_DRIVER})};
}

}  // namespace kineto_spyre::selftest
