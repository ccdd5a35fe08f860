#include "c_interface.h"

namespace kineto_spyre::emulator {

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

spyreError_t no_machine() {
  return fail(SPYRE_ERROR_NOT_INITIALIZED,
              g_forked.load(std::memory_order_relaxed)
                  ? "this process was forked from one that used the emulated device, and has none of its own; call "
                    "spyreInit (kineto_spyre.emulator.enable) in it, or start processes with spawn"
                  : "no emulated device was started; call spyreInit (kineto_spyre.emulator.enable) first");
}

spyreError_t lost(const Device& device) {
  return fail(SPYRE_ERROR_DEVICE_LOST, "device ", device.index,
              " is lost (a fault that was asked for); clear the faults to have it back");
}

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

spyreError_t traced_wait(const Point& point, uint64_t data) {
  Call call(kScheduleWait);
  const spyreError_t error = wait_for(point);
  call.end(data);
  return error;
}

}  // namespace kineto_spyre::emulator
