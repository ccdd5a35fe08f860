// How long records are. Who iterates steps by it, so sizes are multiples of what records must be aligned to.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <cstddef>
#include <cstdint>

#include "emulated_aiupti/shape.h"

namespace kineto_spyre::emulator {

inline constexpr uint8_t kUnknownKind = 42;  // a fault's
inline constexpr size_t kUnknownKindBytes = 64;

inline size_t size_of(uint8_t kind, Shape shape) {
  const auto longer = [](size_t bytes, int16_t extra) {
    return static_cast<size_t>(static_cast<ptrdiff_t>(bytes) + extra);
  };
  switch (kind) {
    case AIUPTI_ACTIVITY_KIND_CMPT:
      return longer(sizeof(AIUpti_ActivityCompute), shape.compute_extra);
    case AIUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(AIUpti_ActivityMemset);
    case AIUPTI_ACTIVITY_KIND_MEMORY:
      return sizeof(AIUpti_ActivityMemory);
    case AIUPTI_ACTIVITY_KIND_MEMCPY:
    case AIUPTI_ACTIVITY_KIND_MEMCPY2:
      return longer(sizeof(AIUpti_ActivityMemcpy), shape.copy_extra);
    case AIUPTI_ACTIVITY_KIND_RUNTIME:
    case AIUPTI_ACTIVITY_KIND_DRIVER:
      return longer(sizeof(AIUpti_ActivityAPI), shape.call_extra);
    case kUnknownKind:
      return kUnknownKindBytes;
    default:
      return 0;
  }
}

inline size_t size_of_record(const uint8_t* record, Shape shape) { return size_of(*record, shape); }

}  // namespace kineto_spyre::emulator
