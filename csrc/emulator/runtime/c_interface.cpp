#include "c_interface.h"

namespace kineto_spyre::emulator {

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
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
  CallInProgress call(kScheduleWait);
  const spyreError_t error = wait_for(point);
  call.end(data);
  return error;
}

}  // namespace kineto_spyre::emulator
