// The C interface: what makes a device work. Copies, fills, kernels.
#include <cstring>

#include "c_interface.h"
#include "spyre_emulator/runtime.h"

namespace kineto_spyre::emulator {
namespace {

constinit thread_local spyreCollective_t t_collective{};  // that what the thread submits belongs to
// As they are in a trace; by spyreMemcpyKind_t.
constexpr const char* kCopyNames[] = {"", "Memcpy (HtoD)", "Memcpy (DtoH)", "Memcpy (PtoP)"};

spyreError_t submit(Device& device, spyreStream_st& stream, CallInProgress& call, WorkItem& item, bool modelled,
                    uint64_t data, bool blocking) {
  item.traced = call.traced();
  item.correlation = call.correlation;
  item.queued_ns = call.begin_ns;
  if (item.traced) item.collective = t_collective;
  std::shared_ptr<Point> end;
  SubmitResult result;
  while ((result = device.submit(stream, item, modelled, blocking ? &end : nullptr)) == SubmitResult::kFull) {
    CallInProgress wait(kWaitForQueueCapacity);
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
}  // namespace kineto_spyre::emulator

using namespace kineto_spyre::emulator;

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
  CallInProgress call(cbid);
  WorkItem item;
  item.work = WorkKind::kCopy;
  item.copy_kind = kind;
  item.bytes = bytes;
  item.duration_ns = model::copy_ns(bytes);
  item.joules = model::copy_joules(static_cast<double>(bytes), kind != SPYRE_MEMCPY_PTOP);
  if (device->metered()) item.set_name(kCopyNames[kind]);
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
  CallInProgress call(kMalloc);
  WorkItem item;
  item.work = WorkKind::kFill;
  item.bytes = bytes;
  item.duration_ns = model::fill_ns(bytes);
  item.joules = model::fill_joules(static_cast<double>(bytes));
  if (device->metered()) item.set_name("Memset (Device)");
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
  if (kernel == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreLaunchKernel needs a kernel; the pointer is null");
  if (kernel->count < 0 || kernel->flops < 0 || kernel->ns > int64_t{1'000'000'000'000'000}) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "a kernel's count and flops are at least 0 and its ns at most 1e15; count ",
                kernel->count, ", flops ", kernel->flops, ", ns ", kernel->ns, " were given");
  }
  CallInProgress call(kLaunchCompute);
  WorkItem item;
  item.count = kernel->count == 0 ? 1 : static_cast<uint64_t>(kernel->count);
  item.bytes = kernel->bytes_read + kernel->bytes_written;
  item.bytes_read = kernel->bytes_read;
  item.watts = kernel->watts > 0 ? kernel->watts : model::kKernelWatts;
  if (!(kernel->watts > 0)) {
    item.joules = model::kernel_work_joules(kernel->flops, static_cast<double>(item.bytes), kernel->dtype);
  }
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
  if (call.traced() || device->metered()) item.set_name(kernel->name == nullptr ? "unnamed" : kernel->name);
  return submit(*device, *stream, call, item, modelled, item.count, false);
}

spyreError_t spyreSetCollective(const spyreCollective_t* collective) {
  t_collective = collective != nullptr ? *collective : spyreCollective_t{};
  return SPYRE_SUCCESS;
}
