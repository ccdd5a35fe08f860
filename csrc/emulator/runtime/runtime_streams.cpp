// The C interface: streams.
#include "c_interface.h"
#include "spyre_emulator/runtime.h"

using namespace kineto_spyre::emulator;

spyreError_t spyreStreamCreate(int32_t index, int32_t /*priority: all are equal*/, spyreStream_t* stream) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (device->lost()) return lost(*device);
  if (stream == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamCreate needs a pointer for the stream; it is null");
  *stream = device->create_stream();
  if (*stream == nullptr) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "device ", index, ": all ", kMaxStreams,
                " streams are in use; use one of them again");
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreStreamGet(int32_t index, uint32_t id, spyreStream_t* stream) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (stream == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamGet needs a pointer for the stream; it is null");
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
  if (id == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamGetId needs a pointer for the id; it is null");
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
  if (event == nullptr) return fail(SPYRE_ERROR_INVALID_VALUE, "spyreStreamWaitEvent needs an event; it is null");
  if (const auto point = event->current()) device->wait_for(*stream, point);
  return SPYRE_SUCCESS;
}
