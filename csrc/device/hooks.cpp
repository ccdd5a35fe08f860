#include "device/hooks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "device/allocator.h"
#include "device/backward_threads.h"
#include "device/runtime.h"

namespace kineto_spyre::device {
namespace {

struct SpyreGenerator final : c10::GeneratorImpl {
  at::Generator cpu;

  SpyreGenerator(c10::DeviceIndex device, at::Generator generator)
      : c10::GeneratorImpl(c10::Device(kSpyre, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu(std::move(generator)) {}

  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { cpu.set_offset(offset); }
  uint64_t get_offset() const override { return cpu.get_offset(); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }

 private:
  SpyreGenerator* clone_impl() const override {
    auto* copy = new SpyreGenerator(device().index(), cpu.clone());
    return copy;
  }
};

at::Generator make_generator(c10::DeviceIndex device) {
  return at::make_generator<SpyreGenerator>(device, at::detail::createCPUGenerator());
}

// Each device's own, seeded like the CPU's: default_rng_seed_val until someone sets a seed.
const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::array<at::Generator, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) (*made)[i] = make_generator(static_cast<c10::DeviceIndex>(i));
    return made;
  }();
  return (*all)[resolve(device)];
}

// Host memory that copies may use asynchronously. Nothing is locked into RAM, since no hardware reads it; what counts
// is that we know which addresses are pinned.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return c10::DataPtr(nullptr, c10::Device(c10::kCPU));
    void* data = c10::alloc_cpu(bytes);
    const std::unique_lock lock(mutex_);
    ranges_.emplace(reinterpret_cast<uintptr_t>(data), bytes);
    stats_.allocations.increase(1);
    stats_.active_requests.increase(1);
    stats_.allocated_bytes.increase(bytes);
    stats_.active_bytes.increase(bytes);
    ++stats_.num_host_alloc;
    return c10::DataPtr(data, data, &release, c10::Device(c10::kCPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool contains(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const std::shared_lock lock(mutex_);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    const auto& [begin, size] = *--after;
    return address < begin + size;
  }

  // The device has read or written the bytes when the call returns: nothing to wait for before they are reused.
  bool record_event(void* pointer, void*, c10::Stream) override { return contains(pointer); }
  void empty_cache() override {}  // nothing is cached
  at::HostStats get_stats() override {
    const std::shared_lock lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    each([](auto& stat) { stat.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    each([](auto& stat) { stat.reset_peak(); });
  }

  static PinnedAllocator& instance() {
    static auto* one = new PinnedAllocator;
    return *one;
  }

 private:
  static void release(void* data) {
    PinnedAllocator& self = instance();
    if (!forked) {  // else another thread may have held the lock when the process was forked
      const std::unique_lock lock(self.mutex_);
      const auto it = self.ranges_.find(reinterpret_cast<uintptr_t>(data));
      if (it != self.ranges_.end()) {
        self.stats_.allocations.decrease(1);
        self.stats_.active_requests.decrease(1);
        self.stats_.allocated_bytes.decrease(it->second);
        self.stats_.active_bytes.decrease(it->second);
        ++self.stats_.num_host_free;
        self.ranges_.erase(it);
      }
    }
    c10::free_cpu(data);
  }
  template <class F>
  void each(F f) {
    const std::unique_lock lock(mutex_);
    f(stats_.allocations);
    f(stats_.active_requests);
    f(stats_.allocated_bytes);
    f(stats_.active_bytes);
  }

  std::shared_mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;
  at::HostStats stats_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  // Asked of each device on the thread that calls backward(), before the autograd threads begin: see the header.
  bool hasPrimaryContext(c10::DeviceIndex device) const override {
    note_backwards_caller();
    return device >= 0 && device < device_count();
  }
  void init() const override { refuse_in_fork(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { exchange_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchange_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 || device >= device_count() ? current_device() : exchange_device(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(resolve(device)); }

  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator::instance(); }
  c10::Device getDeviceFromPtr(void* pointer) const override {
    const int32_t device = spyrePointerDevice(pointer);
    TORCH_CHECK(device >= 0, "The address ", pointer, " does not belong to a spyre device.");
    return c10::Device(kSpyre, static_cast<c10::DeviceIndex>(device));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* s = storage.unsafeGetStorageImpl();
    TORCH_CHECK(s->resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr data = allocate_on(s->device().index(), bytes);
    const size_t kept = std::min(bytes, s->nbytes());
    if (kept > 0) std::memcpy(data.get(), s->data(), kept);
    s->set_data_ptr_noswap(std::move(data));
    s->set_nbytes(bytes);
  }
};

}  // namespace

at::Generator cpu_generator(const c10::IValue& generator, c10::DeviceIndex device) {
  const at::Generator g = generator.isNone() ? default_generator(device) : generator.toGenerator();
  TORCH_CHECK(g.device().type() == kSpyre, "Expected a 'spyre' device type for generator but found '",
              g.device().type(), "'. Make it with torch.Generator(device=\"spyre\").");
  return static_cast<SpyreGenerator*>(g.unsafeGetGeneratorImpl())->cpu;
}

bool is_pinned(const void* pointer) noexcept { return PinnedAllocator::instance().contains(pointer); }

void install_hooks() {
  at::setHostAllocator(kSpyre, &PinnedAllocator::instance());
  static auto* const hooks = new Hooks;  // PyTorch keeps it until the process has ended
  at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace kineto_spyre::device
