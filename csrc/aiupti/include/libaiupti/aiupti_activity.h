// The interface of libaiupti, Spyre's profiling library, as far as it is publicly known.
//
// IBM's own header is not redistributable. This one declares the same names, gathered from the way public clients use
// them, so that this project builds without an SDK. When LIBAIUPTI_INSTALL_DIR names an SDK at build time, the plugin
// is built with the SDK's <libaiupti/aiupti_activity.h>; the emulated libaiupti is always built with this one.
//
// Times are nanoseconds since the Unix epoch, on the clock of whoever wrote the record: the host's for runtime and
// driver calls, the device's for everything else. Sizes are bytes.
//
// What a public client states: the functions and their C++ linkage, the kinds, the names of all fields, and the layout
// of AIUpti_ActivityCompute. The order of the other records' fields is this header's choice, and so are the names
// AIUPTI_ERROR_* and AIUPTI_ACTIVITY_OPERATION_KIND_*, which no client uses.
//
// Newer releases append fields to some records (attributes, coll_group and others). A client that reads them defines
// LIBAIUPTI_NEWER_RELEASE before it includes this header: they make records longer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aiupti_runtime_cbid.h"

typedef enum {
  AIUPTI_SUCCESS = 0,
  AIUPTI_ERROR_INVALID_PARAMETER = 1,
  AIUPTI_ERROR_INVALID_KIND = 2,
  AIUPTI_ERROR_MAX_LIMIT_REACHED = 3,  // no further record in this buffer: how an iteration ends
  AIUPTI_ERROR_NOT_INITIALIZED = 4,
  AIUPTI_ERROR_UNKNOWN = 999,
} AIUpti_ResultTypes;

typedef enum {
  AIUPTI_ACTIVITY_KIND_INVALID = 0,
  AIUPTI_ACTIVITY_KIND_CMPT = 1,
  AIUPTI_ACTIVITY_KIND_MEMSET = 2,
  AIUPTI_ACTIVITY_KIND_MEMORY = 3,
  AIUPTI_ACTIVITY_KIND_MEMCPY = 4,   // between host and device
  AIUPTI_ACTIVITY_KIND_MEMCPY2 = 5,  // between devices
  AIUPTI_ACTIVITY_KIND_RUNTIME = 6,
  AIUPTI_ACTIVITY_KIND_DRIVER = 7,
  AIUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 8,
  AIUPTI_ACTIVITY_KIND_EVENT = 9,
  AIUPTI_ACTIVITY_KIND_ENVIRONMENT = 10,
  AIUPTI_ACTIVITY_KIND_METRIC = 11,
} AIUpti_ActivityKind;

typedef enum {
  AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE = 1,
  AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE = 2,
} AIUpti_ActivityOperationKind;

// Further operation kinds of a compute record: the work only moves data onto the device, or off it. The numbers are
// this header's choice.
typedef enum {
  AIUPTI_ACTIVITY_KIND_DMI = 3,
  AIUPTI_ACTIVITY_KIND_DMO = 4,
} AIUpti_ActivityCmptKind;

typedef enum {
  AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 3,
} AIUpti_ActivityMemcpyKind;

typedef enum {
  AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION = 1,
  AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE = 2,
} AIUpti_ActivityMemoryOperationType;

// What every record starts with.
typedef struct AIUpti_Activity {
  uint8_t kind;  // AIUpti_ActivityKind
} AIUpti_Activity;

// Derived records call the kind activity_kind; `kind` is another name for it here.
// One piece of compute work on the device (CMPT).
typedef struct AIUpti_ActivityCompute {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint8_t operation_kind;  // AIUpti_ActivityOperationKind or AIUpti_ActivityCmptKind
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t correlation_id;  // that of the launching call's record
  uint64_t start;
  uint64_t end;
  uint64_t queued;            // the host handed it to the stream; host clock, as is submitted
  uint64_t submitted;         // the runtime handed it to the device
  size_t local_memory_total;  // scratchpad bytes, all cores
  char name[128];             // NUL-terminated
  uint64_t cycles_ts1;        // device cycle stamps, 32 bits, wrapping; appended by a later release (+40 bytes)
  uint64_t cycles_ts2;
  uint64_t cycles_ts3;
  uint64_t cycles_ts4;
  uint64_t cycles_ts5;
#ifdef LIBAIUPTI_NEWER_RELEASE  // of work that belongs to a collective
  uint32_t call;
  uint32_t coll_group;
  uint32_t coll_algo;
  uint64_t coll_bytes;
#endif
} AIUpti_ActivityCompute;

// One copy (MEMCPY, MEMCPY2).
typedef struct AIUpti_ActivityMemcpy {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint8_t copy_kind;  // AIUpti_ActivityMemcpyKind
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t correlation_id;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint64_t cycles_ts1;
  uint64_t cycles_ts2;
  uint64_t cycles_ts3;
  uint64_t cycles_ts4;
  uint64_t cycles_ts5;
#ifdef LIBAIUPTI_NEWER_RELEASE  // of work that belongs to a collective
  uint32_t call;
  uint32_t coll_group;
  uint32_t coll_algo;
  uint64_t coll_bytes;
#endif
} AIUpti_ActivityMemcpy;

// One fill (MEMSET).
typedef struct AIUpti_ActivityMemset {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t correlation_id;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
} AIUpti_ActivityMemset;

// One allocation or release of device memory (MEMORY).
typedef struct AIUpti_ActivityMemory {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint8_t memory_operation_type;  // AIUpti_ActivityMemoryOperationType
  uint32_t device_id;
  uint32_t process_id;
  uint32_t stream_id;
  uint32_t correlation_id;
  uint64_t address;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
} AIUpti_ActivityMemory;

// One call of the runtime or the driver, on the host (RUNTIME, DRIVER).
typedef struct AIUpti_ActivityAPI {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint32_t cbid;  // AIUpti_runtime_api_trace_cbid
  uint32_t process_id;
  uint32_t thread_id;  // gettid(); newer releases only
  uint32_t correlation_id;
  uint64_t start;
  uint64_t end;
  uint64_t data;  // control blocks for launches, bytes for transfers
#ifdef LIBAIUPTI_NEWER_RELEASE
  char attributes[256];  // NUL-terminated
#endif
} AIUpti_ActivityAPI;

// One reading of a counter of the device (METRIC).
typedef struct AIUpti_ActivityMetric {
  union {
    uint8_t activity_kind;
    uint8_t kind;
  };
  uint32_t event_id;
  uint64_t timestamp;
  uint32_t device_id;
  uint64_t value;
} AIUpti_ActivityMetric;

// libaiupti asks for a buffer: set *buffer and *size, and *maxNumRecords to 0 for as many records as fit.
// Clients always give one: what a null *buffer does is not known.
typedef void (*AIUpti_BuffersCallbackRequestFunc)(uint8_t** buffer, size_t* size, size_t* maxNumRecords);
// libaiupti gives a buffer back: the first validSize bytes hold records.
typedef void (*AIUpti_BuffersCallbackCompleteFunc)(uint8_t* buffer, size_t size, size_t validSize);

// C++ linkage, as the real library has it.
AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(AIUpti_BuffersCallbackRequestFunc request,
                                                   AIUpti_BuffersCallbackCompleteFunc complete);
AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind kind);
AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind kind);
// Sets *record to the record after *record, or to the first one when the iteration over this buffer begins. The library
// keeps the place of an iteration in state of its own, per buffer, and clears it only when it has come to its end: the
// first result that is not AIUPTI_SUCCESS.
AIUpti_ResultTypes aiuptiActivityGetNextRecord(uint8_t* buffer, size_t validSize, AIUpti_Activity** record);
AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* dropped);
AIUpti_ResultTypes aiuptiFlushAllActivities();
