// The C interface: the machine, its devices, the faults that they have, and whoever traces them.
#include "spyre_emulator/runtime.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "c_interface.h"

namespace kineto_spyre::emulator {
namespace {

// See setup_mutex(). In storage of its own, as the child of a fork makes it anew.
alignas(std::mutex) unsigned char g_setup_storage[sizeof(std::mutex)];
std::mutex& g_setup = *new (g_setup_storage) std::mutex;

// Threads don't survive a fork, so neither does the machine: the child starts without one. What the parent's machine
// held stays where it is, unused (the child's copy of its memory can still be read).
void in_forked_child() {
  g_machine.store(nullptr, std::memory_order_release);
  tracer_in_force.store(nullptr, std::memory_order_release);
  g_forked.store(true, std::memory_order_relaxed);
  new (g_setup_storage) std::mutex;
}

}  // namespace

constinit std::atomic<Faults*> faults_in_force{nullptr};
constinit std::atomic<const spyreTracer*> tracer_in_force{nullptr};
constinit std::atomic<uint32_t> correlations{0};
constinit std::atomic<Machine*> g_machine{nullptr};
constinit std::atomic<bool> g_forked{false};

std::mutex& setup_mutex() noexcept { return g_setup; }

void deliver_ended_work() noexcept {
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) device->deliver();
  }
}

}  // namespace kineto_spyre::emulator

using namespace kineto_spyre::emulator;

const char* spyreGetLastErrorString(void) { return last_error().c_str(); }

spyreError_t spyreInit(const spyreConfig_t* config) {
  if (config == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreInit needs a configuration; the pointer is null");
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
  if (count == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreGetDeviceCount needs a pointer for the count; it is null");
  const Machine* machine = g_machine.load(std::memory_order_acquire);
  *count = machine == nullptr ? 0 : machine->config.devices;
  return SPYRE_SUCCESS;
}

spyreError_t spyreDeviceSynchronize(int32_t index) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (device->lost()) return lost(*device);
  CallInProgress call(kScheduleWait);
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
  if (device_ns == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "the pointer for the device's time is null");
  *device_ns = device->clock().at(host_ns);
  return SPYRE_SUCCESS;
}

spyreError_t spyreGetDeviceProperties(int32_t index, spyreDeviceProperties_t* properties) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (properties == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "the pointer for the device's properties is null");
  *properties = {};
  std::memcpy(properties->name, "AIU", sizeof("AIU"));
  properties->memory_total = device->memory.total();
  properties->memory_free = device->memory.free_bytes();
  properties->cores = model::kCores;
  properties->scratchpad_bytes_per_core = model::kScratchpadBytesPerCore;
  return SPYRE_SUCCESS;
}

spyreError_t spyreGetScratchpad(int32_t index, spyreScratchpad_t* scratchpad) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (scratchpad == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "the pointer for the scratchpad's figures is null");
  *scratchpad = device->scratchpad();
  return SPYRE_SUCCESS;
}

spyreError_t spyreResetScratchpad(int32_t index) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  device->reset_scratchpad();
  return SPYRE_SUCCESS;
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

int32_t spyreIsTracing(void) {
  return tracer_in_force.load(std::memory_order_relaxed) != nullptr || metering.load(std::memory_order_relaxed);
}

spyreError_t spyreSetTracer(const spyreTracer* tracer) {
  std::lock_guard lock(g_setup);
  tracer_in_force.store(tracer, std::memory_order_release);
  if (Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) device->look_again(false);
  }
  return SPYRE_SUCCESS;
}
