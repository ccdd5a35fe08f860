// Enumerators that an SDK's header may lack. CMakeLists.txt looks for each one and defines AIUPTI_LACKS_<name>; then
// the number is the one that our own header gives it. Included by records.h.
#pragma once

#include <libaiupti/aiupti_activity.h>

namespace kineto_spyre::aiupti::detail {

#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_KIND_DMI
inline constexpr int kDmi = 3;
#else
inline constexpr auto kDmi = AIUPTI_ACTIVITY_KIND_DMI;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_KIND_DMO
inline constexpr int kDmo = 4;
#else
inline constexpr auto kDmo = AIUPTI_ACTIVITY_KIND_DMO;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD
inline constexpr int kHtoD = 1;
#else
inline constexpr auto kHtoD = AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH
inline constexpr int kDtoH = 2;
#else
inline constexpr auto kDtoH = AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP
inline constexpr int kPtoP = 3;
#else
inline constexpr auto kPtoP = AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
inline constexpr int kAllocation = 1;
#else
inline constexpr auto kAllocation = AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
#endif
#ifdef AIUPTI_LACKS_AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
inline constexpr int kRelease = 2;
#else
inline constexpr auto kRelease = AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
#endif

}  // namespace kineto_spyre::aiupti::detail
