// The runtime of an emulated Spyre: devices with memory, streams, events, copies, fills and kernels.
//
// C interface of libspyre_emulator.so. It knows neither PyTorch nor who reads its records. Every function may be called
// from any thread. Unless said otherwise a function returns SPYRE_SUCCESS or an error, and spyreGetLastErrorString()
// gives the calling thread a sentence about its last error.
//
// Time. Each device has a clock of its own: device_ns = host_ns + offset + drift * elapsed (offset and drift are 0
// unless a fault says otherwise). Work on a stream runs in order; streams run concurrently. Submission is asynchronous:
// the work's place on the device's timeline follows from its cost, its stream and the events that the stream waits for;
// a host thread that synchronises waits in real time until the device is done.
//
// Function. Memory of a device is host memory at the address that spyreMalloc returns: a caller (csrc/device) may
// compute on it directly and then submit a kernel that only takes its place in time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPYRE_API __attribute__((visibility("default")))

typedef enum {
  SPYRE_SUCCESS = 0,
  SPYRE_ERROR_INVALID_VALUE = 1,
  SPYRE_ERROR_OUT_OF_MEMORY = 2,
  SPYRE_ERROR_NOT_INITIALIZED = 3,
  SPYRE_ERROR_INVALID_DEVICE = 4,
  SPYRE_ERROR_NOT_READY = 5,    // not an error: the queried work is still running
  SPYRE_ERROR_DEVICE_LOST = 6,  // a fault: the device is gone, all its work fails
  SPYRE_ERROR_TIMEOUT = 7,
  SPYRE_ERROR_UNKNOWN = 999
} spyreError_t;

typedef enum { SPYRE_TIME_MODELLED = 0, SPYRE_TIME_MEASURED = 1 } spyreTimeMode_t;

typedef struct {
  int32_t devices;        // 1 to 8
  uint64_t memory_bytes;  // a device's address space; 0: 4 GiB
  spyreTimeMode_t time;
  int32_t has_seed;  // with a seed, durations, cycle stamps and back-to-back gaps repeat exactly
  uint64_t seed;
} spyreConfig_t;

typedef struct spyreStream_st* spyreStream_t;  // null: the device's default stream (stream id 1)
typedef struct spyreEvent_st* spyreEvent_t;

SPYRE_API const char* spyreGetLastErrorString(void);

// Idempotent for an equal config; SPYRE_ERROR_INVALID_VALUE for a different one while memory, streams or events are
// alive.
SPYRE_API spyreError_t spyreInit(const spyreConfig_t* config);
SPYRE_API int32_t spyreIsInitialized(void);
SPYRE_API spyreError_t spyreGetDeviceCount(int32_t* count);  // 0 before spyreInit
SPYRE_API spyreError_t spyreDeviceSynchronize(int32_t device);
SPYRE_API spyreError_t spyreDeviceTime(int32_t device, uint64_t* device_ns);  // the device's clock, now
// The truth about a device's clock: what it shows at the host's time host_ns (ns since the epoch).
SPYRE_API spyreError_t spyreDeviceTimeAt(int32_t device, uint64_t host_ns, uint64_t* device_ns);

typedef struct {
  char name[64];
  uint64_t memory_total, memory_free;
  int32_t cores;
  uint64_t scratchpad_bytes_per_core;
} spyreDeviceProperties_t;
SPYRE_API spyreError_t spyreGetDeviceProperties(int32_t device, spyreDeviceProperties_t* properties);

// Memory. A zero-byte request gives a unique non-null address. Alignment: 128 bytes (a stick).
SPYRE_API spyreError_t spyreMalloc(int32_t device, uint64_t bytes, spyreStream_t stream, void** address);
SPYRE_API spyreError_t spyreFree(int32_t device, void* address);
SPYRE_API spyreError_t spyreMemGetInfo(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes);
// The device that owns an address, -1 if none does.
SPYRE_API int32_t spyrePointerDevice(const void* address);

// Streams have ids from 1 (the default stream) upwards within their device.
SPYRE_API spyreError_t spyreStreamCreate(int32_t device, int32_t priority, spyreStream_t* stream);
SPYRE_API spyreError_t spyreStreamDestroy(spyreStream_t stream);
// The stream with that id (1 to 1024), made if there is none. Such a stream belongs to the device: it is not destroyed.
SPYRE_API spyreError_t spyreStreamGet(int32_t device, uint32_t id, spyreStream_t* stream);
SPYRE_API spyreError_t spyreStreamGetId(spyreStream_t stream, uint32_t* id);
SPYRE_API spyreError_t spyreStreamQuery(int32_t device, spyreStream_t stream);
SPYRE_API spyreError_t spyreStreamSynchronize(int32_t device, spyreStream_t stream);
SPYRE_API spyreError_t spyreStreamWaitEvent(int32_t device, spyreStream_t stream, spyreEvent_t event);

SPYRE_API spyreError_t spyreEventCreate(int32_t device, int32_t timing, spyreEvent_t* event);
SPYRE_API spyreError_t spyreEventDestroy(spyreEvent_t event);
SPYRE_API spyreError_t spyreEventRecord(spyreEvent_t event, int32_t device, spyreStream_t stream);
SPYRE_API spyreError_t spyreEventQuery(spyreEvent_t event);
SPYRE_API spyreError_t spyreEventSynchronize(spyreEvent_t event);
SPYRE_API spyreError_t spyreEventElapsedTime(spyreEvent_t start, spyreEvent_t end, double* milliseconds);

typedef enum { SPYRE_MEMCPY_HTOD = 1, SPYRE_MEMCPY_DTOH = 2, SPYRE_MEMCPY_PTOP = 3 } spyreMemcpyKind_t;

// Copies `bytes` when the stream comes to it, on the device's thread. With SPYRE_EAGER the bytes move at once on the
// calling thread (for csrc/device, whose CPU kernels run ahead of the modelled time) and only the time is asynchronous.
// A null dst and src make a copy that only takes time (for tests).
typedef enum { SPYRE_ASYNC = 0, SPYRE_EAGER = 1, SPYRE_BLOCKING = 2 /* flag: wait for the end */ } spyreCopyFlags_t;
SPYRE_API spyreError_t spyreMemcpy(int32_t device, void* dst, const void* src, uint64_t bytes, spyreMemcpyKind_t kind,
                                   spyreStream_t stream, int32_t flags);
SPYRE_API spyreError_t spyreMemset(int32_t device, void* dst, int32_t value, uint64_t bytes, spyreStream_t stream,
                                   int32_t flags);

typedef enum {
  SPYRE_DTYPE_FP16 = 0,
  SPYRE_DTYPE_FP32 = 1,
  SPYRE_DTYPE_FP8 = 2,
  SPYRE_DTYPE_INT8 = 3,
  SPYRE_DTYPE_OTHER = 4
} spyreDtype_t;

typedef struct {
  const char* name;  // copied; at most 127 bytes are recorded
  int64_t ns;        // >= 0: lasts exactly this; < 0: by the cost model from what follows
  double flops;      // floating-point operations
  uint64_t bytes_read, bytes_written;
  spyreDtype_t dtype;
  int64_t measured_ns;  // what its CPU execution took, for SPYRE_TIME_MEASURED; < 0: not known
  void (*work)(void*);  // null, or what to run on the device's thread when the stream comes to it
  void* work_arg;
  double watts;   // above idle while it runs; 0: by the power model from what precedes
  int32_t count;  // control blocks: this many equal kernels in a row under one launch (0 means 1)
} spyreKernel_t;
SPYRE_API spyreError_t spyreLaunchKernel(int32_t device, spyreStream_t stream, const spyreKernel_t* kernel);

// A host call of the runtime that is not one of the above (comms, compile ...): recorded under the given callback id
// with the calling thread, from begin_ns to end_ns (host clock, ns since the epoch).
SPYRE_API spyreError_t spyreRecordApi(uint32_t cbid, uint64_t begin_ns, uint64_t end_ns, uint64_t data);

// A collective that work belongs to. What its algorithms' numbers mean is the caller's affair.
typedef struct {
  uint32_t group;  // number of the group of ranks
  uint32_t algorithm;
  uint64_t bytes;  // that this rank contributes
} spyreCollective_t;
// Kernels and copies that the calling thread submits from now on belong to it; null: to none.
SPYRE_API spyreError_t spyreSetCollective(const spyreCollective_t* collective);

// A metrics file of each device, as a Spyre's runtime writes it, in a directory; null: no longer. From then on energy
// is added up. SPYRE_ERROR_INVALID_VALUE, with a sentence, if a file can't be made. Goes with the machine.
SPYRE_API spyreError_t spyreWriteMetrics(const char* directory);
// "" if none is written.
SPYRE_API spyreError_t spyreGetMetricsPath(int32_t device, char* path, uint64_t size);

// The truth about energy above idle, by name, of all work that was given a place since metrics were asked for.
typedef struct {
  const char* name;
  double joules;
  uint64_t count, ns;
} spyreEnergy_t;
SPYRE_API spyreError_t spyreGetEnergy(int32_t device, void (*work)(const spyreEnergy_t*, void*), void* argument);

// The truth about the scratchpad: of the kernels that were given a place since the start or the last reset. A kernel
// that touches more than it may use works in tiles: it spills.
typedef struct {
  uint64_t capacity, usable;  // bytes of all cores; what one kernel on all of them may use
  uint64_t largest;           // bytes, the most that one kernel took
  uint64_t kernels, spills;
} spyreScratchpad_t;
SPYRE_API spyreError_t spyreGetScratchpad(int32_t device, spyreScratchpad_t* scratchpad);
SPYRE_API spyreError_t spyreResetScratchpad(int32_t device);

// Faults on demand: a comma-separated list of key=value (spyre_emulator/faults.h says which); null or "" clears them.
// SPYRE_ERROR_INVALID_VALUE, with a sentence naming the key or value, for what it can't read.
SPYRE_API spyreError_t spyreSetFaults(const char* specification);

// Whoever wants to see what the device does (the emulated libaiupti). One tracer; null takes it off.
struct spyreTracer;
// Whether a tracer is installed, or metrics are written: lets a caller skip what only those need (a kernel's name).
// Relaxed loads.
SPYRE_API int32_t spyreIsTracing(void);
SPYRE_API spyreError_t spyreSetTracer(const struct spyreTracer* tracer);

#ifdef __cplusplus
}
#endif
