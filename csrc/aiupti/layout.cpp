#include "aiupti/layout.h"

#include <libaiupti/aiupti_activity.h>

#include <cstddef>
#include <cstdint>

// Our own header once more, beside the one that was found; without an SDK they are one file, which is read once.
namespace kineto_spyre::aiupti::own {
#include "include/libaiupti/aiupti_activity.h"
}  // namespace kineto_spyre::aiupti::own

namespace kineto_spyre::aiupti {
namespace {

// Whether a field that records.h reads is where it is in our own header. What one of the two lacks is not read there.
#define SAME(name)                                                                                     \
  ([] {                                                                                                \
    if constexpr (requires(Found found, Own own) {                                                     \
                    found.name;                                                                        \
                    own.name;                                                                          \
                  })                                                                                   \
      return offsetof(Found, name) == offsetof(Own, name) && sizeof(Found::name) == sizeof(Own::name); \
    return true;                                                                                       \
  }())

template <class Found, class Own>
constexpr bool same_layout() {
  return SAME(operation_kind) && SAME(copy_kind) && SAME(memory_operation_type) && SAME(cbid) && SAME(device_id) &&
         SAME(context_id) && SAME(stream_id) && SAME(process_id) && SAME(thread_id) && SAME(correlation_id) &&
         SAME(start) && SAME(end) && SAME(queued) && SAME(submitted) && SAME(local_memory_total) && SAME(name) &&
         SAME(cycles_ts1) && SAME(cycles_ts5) && SAME(address) && SAME(bytes) && SAME(data);
}
#undef SAME

}  // namespace

bool has_own_layout() noexcept {
  using namespace own;
  return same_layout<::AIUpti_ActivityCompute, AIUpti_ActivityCompute>() &&
         same_layout<::AIUpti_ActivityMemcpy, AIUpti_ActivityMemcpy>() &&
         same_layout<::AIUpti_ActivityMemset, AIUpti_ActivityMemset>() &&
         same_layout<::AIUpti_ActivityMemory, AIUpti_ActivityMemory>() &&
         same_layout<::AIUpti_ActivityAPI, AIUpti_ActivityAPI>();
}

}  // namespace kineto_spyre::aiupti
