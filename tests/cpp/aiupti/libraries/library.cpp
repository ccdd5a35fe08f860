// A libaiupti for the tests of finding one: as the real one has it, with C linkage, or with functions missing.
#include <libaiupti/aiupti_activity.h>

#define EXPORT __attribute__((visibility("default")))
#ifdef WITH_C_LINKAGE
// The header gives the names C++ linkage, so the plain ones are set as the assembler's names of others.
#define FUNCTION(name, ...)                                           \
  EXPORT AIUpti_ResultTypes plain_##name(__VA_ARGS__) __asm__(#name); \
  AIUpti_ResultTypes plain_##name(__VA_ARGS__)
constexpr size_t kDropped = 7;
#else
#define FUNCTION(name, ...) EXPORT AIUpti_ResultTypes name(__VA_ARGS__)
constexpr size_t kDropped = 5;
#endif

FUNCTION(aiuptiActivityRegisterCallbacks, AIUpti_BuffersCallbackRequestFunc, AIUpti_BuffersCallbackCompleteFunc) {
  return AIUPTI_SUCCESS;
}
FUNCTION(aiuptiActivityEnable, AIUpti_ActivityKind) { return AIUPTI_SUCCESS; }
FUNCTION(aiuptiActivityDisable, AIUpti_ActivityKind) { return AIUPTI_SUCCESS; }
FUNCTION(aiuptiActivityGetNextRecord, uint8_t*, size_t, AIUpti_Activity**) { return AIUPTI_ERROR_MAX_LIMIT_REACHED; }
#ifndef INCOMPLETE
FUNCTION(aiuptiActivityGetNumDroppedRecords, size_t* dropped) {
  *dropped = kDropped;
  return AIUPTI_SUCCESS;
}
FUNCTION(aiuptiFlushAllActivities, ) { return AIUPTI_SUCCESS; }
#endif
