// The C interface: checks what it is given, says what is wrong with it, and tells the tracer of each call.
#include "spyre_emulator/runtime.h"

#include <pthread.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>

#include "machine.h"

namespace kineto_spyre::emulator {
namespace {

// The callback ids under which libaiupti records the calls of the runtime. Numbers of our own, so that the runtime
// knows nothing of libaiupti's header.
enum Cbid : uint32_t {
  kLaunchCompute = 2,
  kLaunchDmo = 4,
  kMalloc = 7,  // fills too: on a Spyre, aiuMalloc launches them
  kResizeTensorAllocation = 8,
  kScheduleWait = 17,
  kDataTransferDtoH = 34,
  kDataTransferHtoD = 35,
  kWaitForQueueCapacity = 80,
};

// The process's machine. Acquire in machine(): release in spyreInit and in the child of a fork.
std::atomic<Machine*> g_machine{nullptr};
// Acquire in current_tracer(): release in spyreSetTracer.
std::atomic<const spyreTracer*> g_tracer{nullptr};
std::atomic<uint32_t> g_correlation{0};  // relaxed: a counter
std::atomic<bool> g_forked{false};       // relaxed: only words an error
// Guards making a machine, setting faults and the tracer. In storage of its own, as the child of a fork makes it anew.
alignas(std::mutex) unsigned char g_setup_storage[sizeof(std::mutex)];
std::mutex& g_setup = *new (g_setup_storage) std::mutex;

thread_local std::string last_error;

// Sets the thread's sentence, put together from texts and numbers.
template <typename... Parts>
spyreError_t fail(spyreError_t code, const Parts&... parts) {
  std::ostringstream sentence;
  (sentence << ... << parts);
  last_error = sentence.str();
  return code;
}

// Threads don't survive a fork, so neither does the machine: the child starts without one. What the parent's machine
// held stays where it is, unused (the child's copy of its memory can still be read).
void in_forked_child() {
  g_machine.store(nullptr, std::memory_order_release);
  g_tracer.store(nullptr, std::memory_order_release);
  g_forked.store(true, std::memory_order_relaxed);
  new (g_setup_storage) std::mutex;
}

spyreError_t no_machine() {
  return fail(SPYRE_ERROR_NOT_INITIALIZED,
              g_forked.load(std::memory_order_relaxed)
                  ? "this process was forked from one that used the emulated device, and has none of its own; call "
                    "spyreInit (kineto_spyre.emulator.enable) in it, or start processes with spawn"
                  : "no emulated device was started; call spyreInit (kineto_spyre.emulator.enable) first");
}

struct Found {
  Device* device = nullptr;
  spyreError_t error = SPYRE_SUCCESS;
};

Found find_device(int32_t index) {
  Machine* machine = g_machine.load(std::memory_order_acquire);
  if (machine == nullptr) return {nullptr, no_machine()};
  if (index < 0 || index >= machine->config.devices) {
    return {nullptr, fail(SPYRE_ERROR_INVALID_DEVICE, "there is no device ", index, "; the emulated machine has ",
                          machine->config.devices, ", numbered from 0")};
  }
  return {machine->devices[static_cast<size_t>(index)].get(), SPYRE_SUCCESS};
}

spyreError_t lost(const Device& device) {
  return fail(SPYRE_ERROR_DEVICE_LOST, "device ", device.index,
              " is lost (a fault that was asked for); clear the faults to have it back");
}

struct FoundStream {
  Device* device = nullptr;
  spyreStream_st* stream = nullptr;
  spyreError_t error = SPYRE_SUCCESS;
};

FoundStream find_stream(int32_t index, spyreStream_t stream) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return {nullptr, nullptr, error};
  if (stream == nullptr) stream = &device->default_stream();
  if (&stream->device != device) {
    return {nullptr, nullptr,
            fail(SPYRE_ERROR_INVALID_VALUE, "stream ", stream->id, " belongs to device ", stream->device.index,
                 ", not to device ", index)};
  }
  if (device->lost()) return {nullptr, nullptr, lost(*device)};
  return {device, stream, SPYRE_SUCCESS};
}

// A host call while it is under way. Reads the clock at its end only if someone traces.
class Call {
 public:
  explicit Call(uint32_t cbid) : tracer_(current_tracer()), cbid_(cbid), begin_ns(host_now_ns()) {
    if (tracer_ != nullptr) correlation = next_correlation();
  }
  bool traced() const { return tracer_ != nullptr; }
  const spyreTracer* tracer() const { return tracer_; }
  void end(uint64_t data) {
    if (tracer_ == nullptr) return;
    end_ns = host_now_ns();
    tracer_->host_call({cbid_, correlation, begin_ns, end_ns, data});
  }

 private:
  const spyreTracer* tracer_;
  uint32_t cbid_;

 public:
  uint64_t begin_ns;
  uint64_t end_ns = 0;
  uint32_t correlation = 0;
};

spyreError_t hangs(const spyreStream_st& stream) {
  return fail(SPYRE_ERROR_TIMEOUT, "stream ", stream.id, " of device ", stream.device.index,
              " waits for a kernel that never ends (a fault that was asked for)");
}

spyreError_t wait_for(const Point& point) {
  Device& device = point.stream->device;
  switch (device.wait(point)) {
    case WaitResult::kReached:
      return SPYRE_SUCCESS;
    case WaitResult::kLost:
      return lost(device);
    case WaitResult::kTimedOut:
      break;
  }
  return hangs(*point.stream);
}

uint64_t wait_data(const spyreStream_st& stream) {
  return static_cast<uint64_t>(stream.device.index) << 32 | stream.id;
}

// A wait that the program asked for, as it appears in the trace.
spyreError_t traced_wait(const Point& point, uint64_t data) {
  Call call(kScheduleWait);
  const spyreError_t error = wait_for(point);
  call.end(data);
  return error;
}

spyreError_t submit(Device& device, spyreStream_st& stream, Call& call, Item& item, bool modelled, uint64_t data,
                    bool blocking) {
  item.traced = call.traced();
  item.correlation = call.correlation;
  item.queued_ns = call.begin_ns;
  std::shared_ptr<Point> end;
  SubmitResult result;
  while ((result = device.submit(stream, item, modelled, blocking ? &end : nullptr)) == SubmitResult::kFull) {
    Call wait(kWaitForQueueCapacity);
    const WaitResult waited = device.wait_for_room(stream);
    wait.end(wait_data(stream));
    if (waited == WaitResult::kTimedOut) return hangs(stream);
    item.queued_ns = wait.end_ns != 0 ? wait.end_ns : host_now_ns();
  }
  if (result == SubmitResult::kLost) return lost(device);
  call.end(data);
  return blocking ? traced_wait(*end, wait_data(stream)) : SPYRE_SUCCESS;
}

bool on_device(const void* address, uint64_t bytes, const Device& device) {
  return device.memory.contains(address, bytes);
}

}  // namespace

const spyreTracer* current_tracer() noexcept { return g_tracer.load(std::memory_order_acquire); }
constinit std::atomic<Faults*> faults_in_force{nullptr};

uint32_t next_correlation() noexcept {
  uint32_t id = 0;
  while (id == 0) id = g_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
  return id;
}

void deliver_ended_work() noexcept {
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) device->deliver();
  }
}

}  // namespace kineto_spyre::emulator

using namespace kineto_spyre::emulator;

const char* spyreGetLastErrorString(void) { return last_error.c_str(); }

spyreError_t spyreInit(const spyreConfig_t* config) {
  if (config == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreInit was given no configuration");
  if (config->devices < 1 || config->devices > kMaxDevices) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "an emulated machine has 1 to 8 devices; ", config->devices,
                " were asked for");
  }
  if (config->time != SPYRE_TIME_MODELLED && config->time != SPYRE_TIME_MEASURED) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "time is neither SPYRE_TIME_MODELLED nor SPYRE_TIME_MEASURED");
  }
  const MachineConfig wanted{config->devices, config->memory_bytes == 0 ? uint64_t{4} << 30 : config->memory_bytes,
                             config->time, config->has_seed != 0, config->has_seed != 0 ? config->seed : 0};
  static const int at_fork [[maybe_unused]] = pthread_atfork(nullptr, nullptr, in_forked_child);
  static const bool environment_read = [] {
    const char* specification = std::getenv("KINETO_SPYRE_FAULTS");
    return specification == nullptr || spyreSetFaults(specification) == SPYRE_SUCCESS;
  }();
  if (!environment_read) {
    std::string error;
    parse_faults(std::getenv("KINETO_SPYRE_FAULTS"), &error);
    return fail(SPYRE_ERROR_INVALID_VALUE, "KINETO_SPYRE_FAULTS: " + error);
  }
  std::lock_guard lock(g_setup);
  Machine* present = g_machine.load(std::memory_order_acquire);
  if (present != nullptr) {
    if (present->config == wanted) return SPYRE_SUCCESS;
    if (present->in_use()) {
      return fail(SPYRE_ERROR_INVALID_VALUE,
                  "the emulated machine is in use with another configuration; free its memory, streams and events "
                  "first, or ask for the same devices, memory, time and seed");
    }
    g_machine.store(nullptr, std::memory_order_release);
    for (const auto& device : present->devices) {
      for (const auto& point : device->unfinished()) device->wait(*point);
    }
    delete present;
  }
  try {
    g_machine.store(new Machine(wanted), std::memory_order_release);
  } catch (const std::exception& error) {
    return fail(SPYRE_ERROR_OUT_OF_MEMORY, error.what());
  }
  return SPYRE_SUCCESS;
}

int32_t spyreIsInitialized(void) { return g_machine.load(std::memory_order_acquire) != nullptr; }

spyreError_t spyreGetDeviceCount(int32_t* count) {
  if (count == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreGetDeviceCount was given no place for the count");
  const Machine* machine = g_machine.load(std::memory_order_acquire);
  *count = machine == nullptr ? 0 : machine->config.devices;
  return SPYRE_SUCCESS;
}

spyreError_t spyreDeviceSynchronize(int32_t index) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (device->lost()) return lost(*device);
  Call call(kScheduleWait);
  spyreError_t result = SPYRE_SUCCESS;
  for (const auto& point : device->unfinished()) {
    if (result == SPYRE_SUCCESS) result = wait_for(*point);
  }
  call.end(static_cast<uint64_t>(index) << 32);
  return result;
}

spyreError_t spyreDeviceTime(int32_t device, uint64_t* device_ns) {
  return spyreDeviceTimeAt(device, host_now_ns(), device_ns);
}

spyreError_t spyreDeviceTimeAt(int32_t index, uint64_t host_ns, uint64_t* device_ns) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (device_ns == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "there is no place for the device's time");
  *device_ns = device->clock().at(host_ns);
  return SPYRE_SUCCESS;
}

spyreError_t spyreGetDeviceProperties(int32_t index, spyreDeviceProperties_t* properties) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (properties == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "there is no place for the device's properties");
  *properties = {};
  std::memcpy(properties->name, "AIU", sizeof("AIU"));
  properties->memory_total = device->memory.total();
  properties->memory_free = device->memory.free_bytes();
  properties->cores = model::kCores;
  properties->scratchpad_bytes_per_core = model::kScratchpadBytesPerCore;
  return SPYRE_SUCCESS;
}

spyreError_t spyreMalloc(int32_t index, uint64_t bytes, spyreStream_t stream_or_null, void** address) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (address == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreMalloc was given no place for the address");
  Call call(kMalloc);
  *address = device->memory.allocate(bytes);
  if (*address == nullptr) {
    return fail(SPYRE_ERROR_OUT_OF_MEMORY, "device ", index, " has no room for ", bytes,
                " bytes: ", device->memory.free_bytes(), " of ", device->memory.total(),
                " bytes are free, the largest block of them has ", device->memory.largest_free_block());
  }
  if (call.traced()) {
    call.end(bytes);
    call.tracer()->memory({false, static_cast<uint32_t>(index), stream->id, call.correlation,
                           reinterpret_cast<uint64_t>(*address), bytes, call.begin_ns, call.end_ns, device->clock()});
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreFree(int32_t index, void* address) {
  const auto [device, error] = find_device(index);  // what a lost device held may be freed
  if (error != SPYRE_SUCCESS) return error;
  Call call(kResizeTensorAllocation);
  const int64_t bytes = device->memory.release(address);
  if (bytes < 0) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "nothing is allocated on device ", index, " at address ",
                reinterpret_cast<uintptr_t>(address), ": it was freed before, or never given out");
  }
  if (call.traced()) {
    const auto size = static_cast<uint64_t>(bytes);
    call.end(size);
    call.tracer()->memory({true, static_cast<uint32_t>(index), device->default_stream().id, call.correlation,
                           reinterpret_cast<uint64_t>(address), size, call.begin_ns, call.end_ns, device->clock()});
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreMemGetInfo(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (free_bytes != nullptr) *free_bytes = device->memory.free_bytes();
  if (total_bytes != nullptr) *total_bytes = device->memory.total();
  return SPYRE_SUCCESS;
}

int32_t spyrePointerDevice(const void* address) {
  if (const Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) {
      if (device->memory.contains(address)) return device->index;
    }
  }
  return -1;
}

spyreError_t spyreStreamCreate(int32_t index, int32_t /*priority: all are equal*/, spyreStream_t* stream) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (device->lost()) return lost(*device);
  if (stream == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamCreate was given no place for the stream");
  *stream = device->create_stream();
  if (*stream == nullptr) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "device ", index, " has given out all of its ", kMaxStreams,
                " streams; use one of them again");
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreStreamGet(int32_t index, uint32_t id, spyreStream_t* stream) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (stream == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamGet was given no place for the stream");
  if (id < 1 || id > kMaxStreams) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "a stream's id is from 1 to 1024; ", id, " is not");
  }
  *stream = device->stream(id);
  return SPYRE_SUCCESS;
}

spyreError_t spyreStreamDestroy(spyreStream_t stream) {
  if (stream == nullptr || !stream->owned_by_program) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "only a stream from spyreStreamCreate can be destroyed");
  }
  stream->device.destroy_stream(*stream);
  return SPYRE_SUCCESS;
}

spyreError_t spyreStreamGetId(spyreStream_t stream, uint32_t* id) {
  if (id == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamGetId was given no place for the id");
  *id = stream == nullptr ? 1 : stream->id;
  return SPYRE_SUCCESS;
}

spyreError_t spyreStreamQuery(int32_t index, spyreStream_t stream_or_null) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  return device->idle(*stream) ? SPYRE_SUCCESS : SPYRE_ERROR_NOT_READY;
}

spyreError_t spyreStreamSynchronize(int32_t index, spyreStream_t stream_or_null) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  return traced_wait(*device->mark(*stream), wait_data(*stream));
}

spyreError_t spyreStreamWaitEvent(int32_t index, spyreStream_t stream_or_null, spyreEvent_t event) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamWaitEvent was given no event");
  if (const auto point = event->current()) device->wait_for(*stream, point);
  return SPYRE_SUCCESS;
}

spyreError_t spyreEventCreate(int32_t index, int32_t timing, spyreEvent_t* event) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventCreate was given no place for the event");
  *event = new spyreEvent_st(index, timing != 0);
  g_machine.load(std::memory_order_acquire)->events.fetch_add(1, std::memory_order_relaxed);
  return SPYRE_SUCCESS;
}

spyreError_t spyreEventDestroy(spyreEvent_t event) {
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventDestroy was given no event");
  delete event;
  // In the child of a fork there is no machine any more that would count it.
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    machine->events.fetch_sub(1, std::memory_order_relaxed);
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreEventRecord(spyreEvent_t event, int32_t index, spyreStream_t stream_or_null) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventRecord was given no event");
  if (event->device != index) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "an event of device ", event->device,
                " can't be recorded in a stream of device ", index);
  }
  auto point = device->mark(*stream);
  std::lock_guard lock(event->mutex);
  event->point = std::move(point);
  return SPYRE_SUCCESS;
}

spyreError_t spyreEventQuery(spyreEvent_t event) {
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventQuery was given no event");
  const auto point = event->current();
  if (point == nullptr) return SPYRE_SUCCESS;
  if (point->stream->device.lost()) return lost(point->stream->device);
  const uint64_t time = point->time();
  return time != kUnknown && time <= host_now_ns() && point->functions_have_run() ? SPYRE_SUCCESS
                                                                                  : SPYRE_ERROR_NOT_READY;
}

spyreError_t spyreEventSynchronize(spyreEvent_t event) {
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventSynchronize was given no event");
  const auto point = event->current();
  // No stream in the record: this promises nothing about what a stream was given after the event.
  return point == nullptr ? SPYRE_SUCCESS : traced_wait(*point, UINT64_MAX);
}

spyreError_t spyreEventElapsedTime(spyreEvent_t start, spyreEvent_t end, double* milliseconds) {
  if (start == nullptr || end == nullptr || milliseconds == nullptr) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventElapsedTime takes two events and a place for the time");
  }
  if (!start->timing || !end->timing) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "an event measures time only if it was created with timing enabled");
  }
  const auto first = start->current(), second = end->current();
  if (first == nullptr || second == nullptr) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "record both events before you ask for the time between them");
  }
  if (start->device != end->device) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "events of two devices have no common clock");
  }
  if (spyreEventQuery(start) != SPYRE_SUCCESS || spyreEventQuery(end) != SPYRE_SUCCESS) {
    return fail(SPYRE_ERROR_NOT_READY, "the device has not reached both events; synchronize first");
  }
  const DeviceClock clock = first->stream->device.clock();
  *milliseconds = static_cast<double>(static_cast<int64_t>(clock.at(second->time()) - clock.at(first->time()))) * 1e-6;
  return SPYRE_SUCCESS;
}

spyreError_t spyreMemcpy(int32_t index, void* dst, const void* src, uint64_t bytes, spyreMemcpyKind_t kind,
                         spyreStream_t stream_or_null, int32_t flags) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  uint32_t cbid = kDataTransferHtoD;
  bool dst_on_device = true, src_on_device = false;
  switch (kind) {
    case SPYRE_MEMCPY_HTOD:
      break;
    case SPYRE_MEMCPY_DTOH:
      cbid = kDataTransferDtoH;
      dst_on_device = false, src_on_device = true;
      break;
    case SPYRE_MEMCPY_PTOP:
      cbid = kLaunchDmo;
      src_on_device = true;
      break;
    default:
      return fail(SPYRE_ERROR_INVALID_VALUE, "a copy is SPYRE_MEMCPY_HTOD, _DTOH or _PTOP; ", static_cast<int>(kind),
                  " is none of them");
  }
  const bool moves = dst != nullptr || src != nullptr;
  if (moves && bytes != 0) {
    if (dst == nullptr || src == nullptr) {
      return fail(SPYRE_ERROR_INVALID_VALUE, "a copy has a destination and a source, or neither (it only takes time)");
    }
    const auto within = [&](const void* address) {
      const Device* owner = find_device(spyrePointerDevice(address)).device;
      return owner != nullptr && on_device(address, bytes, *owner);
    };
    if (dst_on_device && !(kind == SPYRE_MEMCPY_HTOD ? on_device(dst, bytes, *device) : within(dst))) {
      return fail(SPYRE_ERROR_INVALID_VALUE, "the destination of a copy of ", bytes,
                  " bytes does not lie in the device's memory");
    }
    if (src_on_device && !(kind == SPYRE_MEMCPY_DTOH ? on_device(src, bytes, *device) : within(src))) {
      return fail(SPYRE_ERROR_INVALID_VALUE, "the source of a copy of ", bytes,
                  " bytes does not lie in the device's memory");
    }
  }
  Call call(cbid);
  Item item;
  item.work = WorkKind::kCopy;
  item.copy_kind = kind;
  item.bytes = bytes;
  item.duration_ns = model::copy_ns(bytes);
  if (moves && bytes != 0) {
    if ((flags & SPYRE_EAGER) != 0) {
      std::memmove(dst, src, bytes);
    } else {
      item.has_function = true;
      item.destination = dst;
      item.source = src;
    }
  }
  const uint64_t data = kind == SPYRE_MEMCPY_PTOP ? 1 : bytes;
  return submit(*device, *stream, call, item, true, data, (flags & SPYRE_BLOCKING) != 0);
}

spyreError_t spyreMemset(int32_t index, void* dst, int32_t value, uint64_t bytes, spyreStream_t stream_or_null,
                         int32_t flags) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (dst != nullptr && bytes != 0 && !on_device(dst, bytes, *device)) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "the ", bytes, " bytes to be filled do not lie in the memory of device ",
                index);
  }
  Call call(kMalloc);
  Item item;
  item.work = WorkKind::kFill;
  item.bytes = bytes;
  item.duration_ns = model::fill_ns(bytes);
  if (dst != nullptr && bytes != 0) {
    if ((flags & SPYRE_EAGER) != 0) {
      std::memset(dst, value, bytes);
    } else {
      item.has_function = true;
      item.destination = dst;
      item.value = value;
    }
  }
  return submit(*device, *stream, call, item, true, bytes, (flags & SPYRE_BLOCKING) != 0);
}

spyreError_t spyreLaunchKernel(int32_t index, spyreStream_t stream_or_null, const spyreKernel_t* kernel) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (kernel == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreLaunchKernel was given no kernel");
  if (kernel->count < 0 || kernel->flops < 0 || kernel->ns > int64_t{1'000'000'000'000'000}) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "a kernel's count and flops are at least 0 and its ns at most 1e15; count ",
                kernel->count, ", flops ", kernel->flops, ", ns ", kernel->ns, " were given");
  }
  Call call(kLaunchCompute);
  Item item;
  item.count = kernel->count == 0 ? 1 : static_cast<uint64_t>(kernel->count);
  item.bytes = kernel->bytes_read + kernel->bytes_written;
  item.function = kernel->work;
  item.argument = kernel->work_arg;
  item.has_function = kernel->work != nullptr;
  item.cost = model::kernel_cost(kernel->flops, kernel->bytes_read, kernel->bytes_written, kernel->dtype);
  item.duration_ns = item.cost.ns;
  bool modelled = kernel->ns < 0;
  if (!modelled) {
    item.duration_ns = static_cast<uint64_t>(kernel->ns);
  } else if (g_machine.load(std::memory_order_acquire)->config.time == SPYRE_TIME_MEASURED) {
    if (kernel->measured_ns >= 0) {
      item.duration_ns = static_cast<uint64_t>(kernel->measured_ns);
      modelled = false;
    } else if (item.has_function) {
      item.open_end = true;
      modelled = false;
    }
  }
  if (call.traced()) item.set_name(kernel->name == nullptr ? "unnamed" : kernel->name);
  return submit(*device, *stream, call, item, modelled, item.count, false);
}

spyreError_t spyreRecordApi(uint32_t cbid, uint64_t begin_ns, uint64_t end_ns, uint64_t data) {
  if (end_ns < begin_ns) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "a call can't end before it begins: ", begin_ns, " to ", end_ns, " ns");
  }
  if (const spyreTracer* tracer = current_tracer()) {
    tracer->host_call({cbid, next_correlation(), begin_ns, end_ns, data});
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreSetFaults(const char* specification) {
  std::string error;
  std::unique_ptr<Faults> faults = parse_faults(specification, &error);
  if (!error.empty()) return fail(SPYRE_ERROR_INVALID_VALUE, error);
  std::lock_guard lock(g_setup);
  static const Faults* all = nullptr;  // those of earlier stay: see Faults
  if (faults != nullptr) {
    faults->before = all;
    all = faults.get();
  }
  faults_in_force.store(faults.release(), std::memory_order_release);  // partner: current_faults()
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) device->look_again(true);
  }
  return SPYRE_SUCCESS;
}

int32_t spyreIsTracing(void) { return g_tracer.load(std::memory_order_relaxed) != nullptr; }

spyreError_t spyreSetTracer(const spyreTracer* tracer) {
  std::lock_guard lock(g_setup);
  g_tracer.store(tracer, std::memory_order_release);
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) device->look_again(false);
  }
  return SPYRE_SUCCESS;
}
