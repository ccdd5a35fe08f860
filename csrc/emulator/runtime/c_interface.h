// What the files of the C interface (runtime*.cpp) share: the sentence of an error, finding what a handle names, and a
// host call as the tracer is told of it. Each function of the C interface checks what it is given, says what is wrong
// with it in a sentence that spyreGetLastErrorString() returns, and returns the code.
#pragma once

#include <sstream>
#include <string>

#include "machine.h"

namespace kineto_spyre::emulator {

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

// The process's machine. Acquire where it is read: release in spyreInit and in the child of a fork.
extern std::atomic<Machine*> g_machine;
extern std::atomic<bool> g_forked;  // relaxed: only words an error
extern std::atomic<bool> metering;  // whether devices' meters run, which add up energy by name. Relaxed: a hint

// Guards making a machine and its metrics, setting faults and the tracer.
std::mutex& setup_mutex() noexcept;

std::string& last_error();  // the thread's

// Sets the thread's sentence, put together from texts and numbers.
template <typename... Parts>
spyreError_t fail(spyreError_t code, const Parts&... parts) {
  std::ostringstream sentence;
  (sentence << ... << parts);
  last_error() = sentence.str();
  return code;
}

inline spyreError_t no_machine() {
  return fail(SPYRE_ERROR_NOT_INITIALIZED,
              g_forked.load(std::memory_order_relaxed)
                  ? "this process was forked from one that used the emulated device, and has none of its own; call "
                    "spyreInit (kineto_spyre.emulator.enable) in it, or start processes with spawn"
                  : "no emulated device was started; call spyreInit (kineto_spyre.emulator.enable) first");
}

inline spyreError_t lost(const Device& device) {
  return fail(SPYRE_ERROR_DEVICE_LOST, "device ", device.index,
              " is lost (a fault that was asked for); clear the faults to have it back");
}

spyreError_t hangs(const spyreStream_st& stream);

struct Found {
  Device* device = nullptr;
  spyreError_t error = SPYRE_SUCCESS;
};

struct FoundStream {
  Device* device = nullptr;
  spyreStream_st* stream = nullptr;
  spyreError_t error = SPYRE_SUCCESS;
};

// A host call while it is under way. Reads the clock at its end only if someone traces.
class CallInProgress {
 public:
  explicit CallInProgress(uint32_t cbid) : tracer_(current_tracer()), cbid_(cbid), begin_ns(host_now_ns()) {
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

inline Found find_device(int32_t index) {
  Machine* machine = g_machine.load(std::memory_order_acquire);
  if (machine == nullptr) return {nullptr, no_machine()};
  if (index < 0 || index >= machine->config.devices) {
    return {nullptr, fail(SPYRE_ERROR_INVALID_DEVICE, "there is no device ", index, "; the emulated machine has ",
                          machine->config.devices, ", numbered from 0")};
  }
  return {machine->devices[static_cast<size_t>(index)].get(), SPYRE_SUCCESS};
}

// The device and its stream, the default one if `stream` is null; an error if the device is lost.
inline FoundStream find_stream(int32_t index, spyreStream_t stream) {
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

spyreError_t wait_for(const Point& point);
// The same, as a wait that the program asked for appears in the trace; `data` as in its record.
spyreError_t traced_wait(const Point& point, uint64_t data);
// The data of a wait for a stream.
inline uint64_t wait_data(const spyreStream_st& stream) {
  return static_cast<uint64_t>(stream.device.index) << 32 | stream.id;
}

}  // namespace kineto_spyre::emulator
