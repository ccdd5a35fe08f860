// A second libaiupti header, as another release might have it: this is what plays the SDK's in tests.
//
// It declares the names that public clients use and no others, so that the plugin can't come to rely on more.
// Everything that a client must not take for granted is different from csrc/aiupti/include: fields are in another
// order, some are wider or narrower, some are new, the cycle stamps and queued are not there, kinds have other numbers,
// and there are kinds that this project has never heard of.
//
// Tests that write records define TEST_NAMES for names that make that easier.
#ifndef LIBAIUPTI_AIUPTI_ACTIVITY_H_
#define LIBAIUPTI_AIUPTI_ACTIVITY_H_

#include <stddef.h>
#include <stdint.h>

#include <libaiupti/aiupti_runtime_cbid.h>

enum AIUpti_ResultTypes {
  AIUPTI_SUCCESS = 0,
#ifdef TEST_NAMES
  AIUPTI_ERROR_INVALID_PARAMETER,
  AIUPTI_ERROR_INVALID_KIND,
  AIUPTI_ERROR_MAX_LIMIT_REACHED,
  AIUPTI_ERROR_UNKNOWN = 999,
#endif
};

enum AIUpti_ActivityKind {
  AIUPTI_ACTIVITY_KIND_INVALID = 0,
  AIUPTI_ACTIVITY_KIND_CMPT = 1,
  AIUPTI_ACTIVITY_KIND_MEMCPY,
  AIUPTI_ACTIVITY_KIND_MEMCPY2,
  AIUPTI_ACTIVITY_KIND_MEMSET,
  AIUPTI_ACTIVITY_KIND_MEMORY,
  AIUPTI_ACTIVITY_KIND_DRIVER,
  AIUPTI_ACTIVITY_KIND_RUNTIME,
  AIUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
  AIUPTI_ACTIVITY_KIND_EVENT = 9,
  AIUPTI_ACTIVITY_KIND_ENVIRONMENT,
  AIUPTI_ACTIVITY_KIND_METRIC = 11,
  AIUPTI_ACTIVITY_KIND_COLLECTIVE,
  AIUPTI_ACTIVITY_KIND_OVERHEAD,
};

#ifdef TEST_NAMES
enum AIUpti_ActivityOperationKind {
  AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE = 1,
  AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE = 2,
};
#endif

enum AIUpti_ActivityCmptKind {
  AIUPTI_ACTIVITY_KIND_DMI = 7,
  AIUPTI_ACTIVITY_KIND_DMO = 8,
};

enum AIUpti_ActivityMemcpyKind {
  AIUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN = 0,
  AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 1,
  AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 2,
  AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 3,
};

enum AIUpti_ActivityMemoryOperationType {
  AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE = 1,
  AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION = 2,
};

struct AIUpti_Activity {
  uint8_t kind;
};

#ifdef TEST_NAMES
#define ACTIVITY_KIND      \
  union {                  \
    uint8_t activity_kind; \
    uint8_t kind;          \
  }
#else
#define ACTIVITY_KIND uint8_t activity_kind
#endif

struct AIUpti_ActivityCompute {
  ACTIVITY_KIND;
  uint8_t operation_kind;
  uint16_t version;
  uint32_t correlation_id;
  uint64_t start;
  uint64_t end;
  uint64_t submitted;
  char name[128];
  uint32_t stream_id;
  uint32_t context_id;
  uint32_t device_id;
  uint32_t priority;
  uint64_t graph_id;
};

struct AIUpti_ActivityMemcpy {
  ACTIVITY_KIND;
  uint8_t copy_kind;
  uint16_t flags;
  uint32_t correlation_id;
  uint64_t bytes;
  uint64_t end;
  uint64_t start;
  uint32_t device_id;
  uint32_t context_id;
  uint64_t stream_id;
};

struct AIUpti_ActivityMemset {
  ACTIVITY_KIND;
  uint32_t value;
  uint64_t start;
  uint64_t end;
  uint32_t bytes;
  uint32_t device_id;
  uint32_t stream_id;
  uint32_t correlation_id;
};

struct AIUpti_ActivityMemory {
  ACTIVITY_KIND;
  uint8_t memory_operation_type;
  uint32_t correlation_id;
  uint64_t bytes;
  uint64_t address;
  uint64_t end;
  uint64_t start;
  uint32_t stream_id;
  uint32_t process_id;
  uint32_t device_id;
  uint32_t pool;
};

struct AIUpti_ActivityAPI {
  ACTIVITY_KIND;
  uint64_t start;
  uint64_t end;
  uint64_t data;
  uint32_t thread_id;
  uint32_t process_id;
  uint32_t correlation_id;
  uint16_t cbid;
  int32_t return_value;
};

typedef void (*AIUpti_BuffersCallbackRequestFunc)(uint8_t** buffer, size_t* size, size_t* maxNumRecords);
typedef void (*AIUpti_BuffersCallbackCompleteFunc)(uint8_t* buffer, size_t size, size_t validSize);

AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(AIUpti_BuffersCallbackRequestFunc funcBufferRequested,
                                                   AIUpti_BuffersCallbackCompleteFunc funcBufferCompleted);
AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind kind);
AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind kind);
AIUpti_ResultTypes aiuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes, AIUpti_Activity** record);
AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* dropped);
AIUpti_ResultTypes aiuptiFlushAllActivities();

#endif  // LIBAIUPTI_AIUPTI_ACTIVITY_H_
