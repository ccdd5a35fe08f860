// A libaiupti for the tests of finding one: as the real one has it, with C linkage, or with functions missing.
#ifdef WITH_C_LINKAGE
// The header's declarations say otherwise, so it is not included.
#include <cstddef>
#include <cstdint>
extern "C" {
#define EXPORT __attribute__((visibility("default")))
EXPORT int aiuptiActivityRegisterCallbacks(void*, void*) { return 0; }
EXPORT int aiuptiActivityEnable(int) { return 0; }
EXPORT int aiuptiActivityDisable(int) { return 0; }
EXPORT int aiuptiActivityGetNextRecord(uint8_t*, size_t, void**) { return 3; }
EXPORT int aiuptiActivityGetNumDroppedRecords(size_t* dropped) { return *dropped = 7, 0; }
EXPORT int aiuptiFlushAllActivities() { return 0; }
}
#else
#include <libaiupti/aiupti_activity.h>
#define EXPORT __attribute__((visibility("default")))
EXPORT AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(AIUpti_BuffersCallbackRequestFunc,
                                                          AIUpti_BuffersCallbackCompleteFunc) {
  return AIUPTI_SUCCESS;
}
EXPORT AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind) { return AIUPTI_SUCCESS; }
EXPORT AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind) { return AIUPTI_SUCCESS; }
EXPORT AIUpti_ResultTypes aiuptiActivityGetNextRecord(uint8_t*, size_t, AIUpti_Activity**) {
  return AIUPTI_ERROR_MAX_LIMIT_REACHED;
}
#ifndef INCOMPLETE
EXPORT AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* dropped) {
  *dropped = 5;
  return AIUPTI_SUCCESS;
}
EXPORT AIUpti_ResultTypes aiuptiFlushAllActivities() { return AIUPTI_SUCCESS; }
#endif
#endif
