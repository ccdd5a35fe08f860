#include "device/runtime.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <mutex>

#include "device/device.h"

namespace kineto_spyre::device {

bool forked = false;

bool in_bad_fork() { return forked; }

void refuse_in_fork() {
  TORCH_CHECK(!forked,
              "This process was forked from one that uses spyre, and a fork does not copy the device's threads. Start "
              "worker processes with torch.multiprocessing's 'spawn' method and KINETO_SPYRE_EMULATE=<number of "
              "devices> in the environment, or use CPU tensors in them.");
}

void fail(spyreError_t error, const char* doing) {
  refuse_in_fork();
  const char* sentence = spyreGetLastErrorString();
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error,
      c10::str("spyre: ", doing, " failed (error ", static_cast<int>(error), "). ", sentence ? sentence : ""));
}

namespace {

constexpr int kPool = 32;                             // streams of each priority
constexpr c10::StreamId kMaxStreams = 1 + 2 * kPool;  // the default one, and two pools

thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> t_stream{};

// Streams by id. An entry is written once, before its c10::Stream is handed out.
struct Streams {
  std::mutex mutex;
  // release: pool(), acquire: handle()
  std::array<std::atomic<spyreStream_t>, kMaxStreams> by_id{};
  std::array<unsigned, 2> next{};
};
std::array<Streams, kMaxDevices>& streams() {
  static auto* all = new std::array<Streams, kMaxDevices>;
  return *all;
}

c10::Stream from_pool(c10::DeviceIndex device, int priority) {
  refuse_in_fork();
  Streams& s = streams()[device];
  const int which = priority < 0;
  std::lock_guard lock(s.mutex);
  const unsigned place = s.next[which]++ % kPool;
  // As torch-spyre numbers them: 1 to 32, and 33 to 64 for those of high priority. The runtime counts from 1, so that
  // the default stream, 0 here, is 1 there.
  const c10::StreamId id = 1 + which * kPool + place;
  if (s.by_id[id].load(std::memory_order_relaxed) == nullptr) {  // the lock orders it
    spyreStream_t created = nullptr;
    check(spyreStreamGet(device, static_cast<uint32_t>(id) + 1, &created), "creating a stream");
    s.by_id[id].store(created, std::memory_order_release);  // acquired by handle()
  }
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kSpyre, device), id);
}

// All dtypes but those that PyTorch's CPU kernels, which do the work here, can't copy: integers of less than a byte,
// and storage formats without values of their own.
c10::DeviceCapability dtypes_that_can_be_copied() {
  c10::DeviceCapability capability;
  for (const int dtype :
       {c10::kIndex_Bits1x8, c10::kIndex_Bits2x4, c10::kIndex_Bits4x2, c10::kIndex_Bits8,
        c10::kIndex_Bits16,  c10::kIndex_UInt1,   c10::kIndex_UInt2,   c10::kIndex_UInt3,
        c10::kIndex_UInt4,   c10::kIndex_UInt5,   c10::kIndex_UInt6,   c10::kIndex_UInt7,
        c10::kIndex_Int1,    c10::kIndex_Int2,    c10::kIndex_Int3,    c10::kIndex_Int4,
        c10::kIndex_Int5,    c10::kIndex_Int6,    c10::kIndex_Int7,    c10::kIndex_Float4_e2m1fn_x2}) {
    capability.capability_data.capability_bits &= ~(uint64_t{1} << dtype);
  }
  return capability;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kSpyre; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return c10::Device(kSpyre, exchange_device(device.index()));
  }
  c10::Device getDevice() const override { return c10::Device(kSpyre, t_device); }
  void setDevice(c10::Device device) const override { exchange_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < kMaxDevices) t_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return dtypes_that_can_be_copied(); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kSpyre, resolve(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return from_pool(resolve(device.index()), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return from_pool(resolve(device.index()), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    handle(stream);  // throws if there is no such stream
    const c10::Stream previous = current_stream(stream.device_index());
    t_stream[stream.device_index()] = stream.id();
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle(stream); }

  bool queryStream(const c10::Stream& stream) const override {
    const spyreError_t error = spyreStreamQuery(stream.device_index(), handle(stream));
    if (error == SPYRE_ERROR_NOT_READY) return false;
    check(error, "asking for a stream's state");
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(spyreStreamSynchronize(stream.device_index(), handle(stream)), "waiting for a stream");
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check(spyreDeviceSynchronize(resolve(device)), "waiting for the device");
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    refuse_in_fork();
    TORCH_CHECK(device == -1 || device == stream.device_index(), "spyre: an event of device ", int{device},
                " can't be recorded on a stream of device ", int{stream.device_index()}, ".");
    auto* e = static_cast<spyreEvent_t>(*event);
    if (e == nullptr) {
      const int timing = flag == c10::EventFlag::BACKEND_DEFAULT;
      check(spyreEventCreate(stream.device_index(), timing, &e), "creating an event");
      *event = e;
    }
    check(spyreEventRecord(e, stream.device_index(), handle(stream)), "recording an event");
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;  // never recorded: nothing to wait for
    check(spyreStreamWaitEvent(stream.device_index(), handle(stream), static_cast<spyreEvent_t>(event)),
          "making a stream wait for an event");
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const spyreError_t error = spyreEventQuery(static_cast<spyreEvent_t>(event));
    if (error == SPYRE_ERROR_NOT_READY) return false;
    check(error, "asking for an event's state");
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check(spyreEventSynchronize(static_cast<spyreEvent_t>(event)), "waiting for an event");
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    double milliseconds = 0;
    check(spyreEventElapsedTime(static_cast<spyreEvent_t>(start), static_cast<spyreEvent_t>(end), &milliseconds),
          "measuring the time between two events");
    return milliseconds;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr && !forked) spyreEventDestroy(static_cast<spyreEvent_t>(event));
  }
};

}  // namespace

c10::DeviceIndex device_count() noexcept {
  int32_t count = 0;
  if (forked || spyreGetDeviceCount(&count) != SPYRE_SUCCESS) return 0;
  return static_cast<c10::DeviceIndex>(count);
}

c10::DeviceIndex current_device() noexcept { return t_device; }

c10::DeviceIndex resolve(c10::DeviceIndex device) {
  if (device == -1) return t_device;
  const int count = device_count();
  if (count == 0) refuse_in_fork();
  TORCH_CHECK(device >= 0 && device < count, "There is no device spyre:", int{device}, "; this process has ", count,
              ". Ask for another one, or start with more: kineto_spyre.emulator.enable(devices=...).");
  return device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex previous = t_device;
  if (device != previous) t_device = resolve(device);
  return previous;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  device = resolve(device);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kSpyre, device), t_stream[device]);
}

spyreStream_t handle(const c10::Stream& stream) {
  refuse_in_fork();
  if (stream.id() == 0) return nullptr;
  spyreStream_t found = nullptr;
  if (stream.id() > 0 && stream.id() < kMaxStreams) {
    // acquires what from_pool() released
    found = streams()[resolve(stream.device_index())].by_id[stream.id()].load(std::memory_order_acquire);
  }
  TORCH_CHECK(found != nullptr, "Device spyre:", int{stream.device_index()}, " has no stream with the id ", stream.id(),
              ". Make streams with torch.Stream(device=\"spyre\").");
  return found;
}

spyreStream_t current_handle(c10::DeviceIndex device) noexcept {
  const c10::StreamId id = t_stream[device];
  // The id was checked when it became current, by this thread: no order is needed.
  return id == 0 ? nullptr : streams()[device].by_id[id].load(std::memory_order_relaxed);
}

void install_guard() {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  static auto* const guard = new Guard;  // PyTorch keeps it until the process has ended
  c10::impl::registerDeviceGuard(kSpyre, guard);
}

}  // namespace kineto_spyre::device
