// The C interface: events, which stand for positions in streams.
#include "c_interface.h"
#include "spyre_emulator/runtime.h"

using namespace kineto_spyre::emulator;

spyreError_t spyreEventCreate(int32_t index, int32_t timing, spyreEvent_t* event) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (event == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventCreate needs a pointer for the event; it is null");
  *event = new spyreEvent_st(index, timing != 0);
  g_machine.load(std::memory_order_acquire)->events.fetch_add(1, std::memory_order_relaxed);
  return SPYRE_SUCCESS;
}

spyreError_t spyreEventDestroy(spyreEvent_t event) {
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventDestroy needs an event; it is null");
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
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventRecord needs an event; it is null");
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
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventQuery needs an event; it is null");
  const auto point = event->current();
  if (point == nullptr) return SPYRE_SUCCESS;
  if (point->stream->device.lost()) return lost(point->stream->device);
  const uint64_t time = point->time();
  return time != kUnknown && time <= host_now_ns() && point->functions_have_run() ? SPYRE_SUCCESS
                                                                                  : SPYRE_ERROR_NOT_READY;
}

spyreError_t spyreEventSynchronize(spyreEvent_t event) {
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreEventSynchronize needs an event; it is null");
  const auto point = event->current();
  // No stream in the record: this promises nothing about what a stream was given after the event.
  return point == nullptr ? SPYRE_SUCCESS : traced_wait(*point, UINT64_MAX);
}

spyreError_t spyreEventElapsedTime(spyreEvent_t start, spyreEvent_t end, double* milliseconds) {
  if (start == nullptr || end == nullptr || milliseconds == nullptr) {
    return fail(SPYRE_ERROR_INVALID_VALUE,
                "spyreEventElapsedTime needs two events and a pointer for the time; one of them is null");
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
  const EmulatedClock clock = first->stream->device.clock();
  *milliseconds = static_cast<double>(static_cast<int64_t>(clock.at(second->time()) - clock.at(first->time()))) * 1e-6;
  return SPYRE_SUCCESS;
}
