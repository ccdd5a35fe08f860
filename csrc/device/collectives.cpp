#include "device/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <time.h>
#if __has_include(<torch/csrc/distributed/c10d/Work.hpp>)
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#endif

#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "device/alias_on_device.h"
#include "device/runtime.h"

namespace kineto_spyre::device {

#if __has_include(<torch/csrc/distributed/c10d/Work.hpp>)
namespace {

using c10::IValue;

// Callback ids of the runtime (facts of libaiupti's comms block, 41 to 77). Collectives that it has no name for go
// under the work scheduler's.
enum Comms : uint32_t {
  kAllreduce = 41,
  kAllgather = 42,
  kGather = 43,
  kReduce = 45,
  kBroadcast = 46,
  kBarrier = 47,
  kWorkScheduler = 48,
  kReadBack = 62,
  kWrite = 63,
  kSend = 64,
  kReceive = 66,
};

struct Collective {
  const char* op;
  Comms id;
  int8_t reads;   // the argument that this rank contributes, -1 for none
  int8_t writes;  // the argument that it gets, -1 for none
  bool waits;     // over when the call returns
};

constexpr Collective kCollectives[] = {
    {"allreduce_", kAllreduce, 0, 0, true},
    {"allreduce_coalesced_", kAllreduce, 0, 0, true},
    {"allgather_", kAllgather, 1, 0, true},
    {"_allgather_base_", kAllgather, 1, 0, true},
    {"allgather_coalesced_", kAllgather, 1, 0, true},
    {"allgather_into_tensor_coalesced_", kAllgather, 1, 0, true},
    {"gather_", kGather, 1, 0, true},
    {"reduce_", kReduce, 0, 0, true},
    {"broadcast_", kBroadcast, 0, 0, true},
    {"barrier", kBarrier, -1, -1, true},  // comes here if it was given a device
    {"scatter_", kWorkScheduler, 1, 0, true},
    {"reduce_scatter_", kWorkScheduler, 1, 0, true},
    {"_reduce_scatter_base_", kWorkScheduler, 1, 0, true},
    {"reduce_scatter_tensor_coalesced_", kWorkScheduler, 1, 0, true},
    {"alltoall_", kWorkScheduler, 1, 0, true},
    {"alltoall_base_", kWorkScheduler, 1, 0, true},
    {"send", kSend, 0, -1, false},
    {"recv_", kReceive, -1, 0, false},
    {"recv_any_source_", kReceive, -1, 0, false},
};

uint64_t host_ns() {  // the clock of the runtime's records
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

constexpr uint32_t kStagedThroughTheHost = 1;  // the one algorithm of the emulated card

// A group's name as a number: torch.distributed numbers its groups and calls them by these numbers; another name's
// hash.
uint32_t number_of(const std::string& name) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && !name.empty()) return number;
  return static_cast<uint32_t>(std::hash<std::string>{}(name));
}

// While it lives, what this thread submits belongs to a collective.
class CollectiveScope {
 public:
  explicit CollectiveScope(const spyreCollective_t& collective) { spyreSetCollective(&collective); }
  ~CollectiveScope() { spyreSetCollective(nullptr); }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;
};

class CollectiveKernel final : public c10::OperatorKernel {
 public:
  explicit CollectiveKernel(const Collective& what) : what_(what) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t base = stack->size() - op.schema().arguments().size();
    const std::vector<IValue> given(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
    c10::DeviceIndex device = -1;
    for (size_t i = base; i < stack->size(); ++i) {
      map_tensors((*stack)[i], [&](const at::Tensor& t) {
        if (!t.defined() || !t.is_privateuseone()) return t;
        device = t.device().index();
        return alias_on_device(c10::kCPU, t);
      });
    }
    uint32_t number = 0;
    if (const auto place = op.schema().argumentIndexWithName("process_group")) {
      const auto group = given[static_cast<size_t>(*place)].toCustomClass<c10d::ProcessGroup>();
      serve_cpu(*group);
      number = number_of(group->getGroupName());
    }
    const uint64_t bytes = bytes_of(given, what_.reads >= 0 ? what_.reads : what_.writes);
    const CollectiveScope scope({number, kStagedThroughTheHost, bytes});
    stage(device, given, what_.reads, SPYRE_MEMCPY_DTOH, kReadBack, /*wait=*/true);
    const uint64_t begin = host_ns();
    c10::Dispatcher::singleton().redispatchBoxed(op, c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    if (what_.waits) stack->back().toCustomClass<c10d::Work>()->wait();
    check(spyreRecordApi(what_.id, begin, host_ns(), bytes), "recording a collective");
    stage(device, given, what_.writes, SPYRE_MEMCPY_HTOD, kWrite, /*wait=*/false);
    if (op.schema().returns().size() > 1) (*stack)[base] = given[0];  // it returns the tensors that it was given
  }

 private:
  // A group that was made for the device alone (init_process_group() without a backend) has no backend of the CPU,
  // whose kernel is about to run. The device's is gloo, which serves both.
  static void serve_cpu(c10d::ProcessGroup& group) {
    using Type = c10d::ProcessGroup::BackendType;
    if (group.hasBackendForDeviceType(c10::kCPU) || !group.hasBackendForDeviceType(kSpyre)) return;
    const auto backend = group.getBackend(kSpyre);
    group.setBackend(c10::kCPU, backend->getBackendName() == "gloo" ? Type::GLOO : Type::CUSTOM, backend);
  }

  static uint64_t bytes_of(const std::vector<IValue>& arguments, int which) {
    uint64_t bytes = 0;
    if (which < 0) return bytes;
    IValue v = arguments[which];
    map_tensors(v, [&](const at::Tensor& t) {
      if (t.defined() && t.is_privateuseone()) bytes += t.nbytes();
      return t;
    });
    return bytes;
  }

  static void stage(c10::DeviceIndex device, const std::vector<IValue>& arguments, int which, spyreMemcpyKind_t kind,
                    Comms id, bool wait) {
    const uint64_t bytes = bytes_of(arguments, which);
    if (bytes == 0 || device < 0) return;
    const uint64_t begin = host_ns();
    check(spyreMemcpy(device, nullptr, nullptr, bytes, kind, current_handle(device),
                      wait ? SPYRE_EAGER | SPYRE_BLOCKING : SPYRE_EAGER),
          "staging a collective");
    check(spyreRecordApi(id, begin, host_ns(), bytes), "staging a collective");
  }

  const Collective& what_;
};

// DistributedDataParallel times forward and backward by it. The host's clock is right here: the CPU's kernel computes
// an op's result before the op returns.
class HostTimer final : public c10d::Timer {
 public:
  explicit HostTimer(c10::Device) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto from = getTimestamp(start), to = getTimestamp(end);
    // A time from the iteration before means that the event did not occur in this one.
    return from && to && *to >= *from ? std::optional(*to - *from) : std::nullopt;
  }
};

// PyTorch has a kernel for our key, which asks the group for a backend of the device; ours takes its place, and says
// nothing about that.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void register_collectives() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  c10d::TimerRegistry()->Register(
      kSpyre, [](c10::Device device) -> std::unique_ptr<c10d::Timer> { return std::make_unique<HostTimer>(device); });
  for (const Collective& what : kCollectives) {
    const auto op = dispatcher.findSchema({std::string("c10d::") + what.op, ""});
    if (!op) continue;  // a PyTorch without torch.distributed
    kept->push_back(
        dispatcher.registerImpl(op->operator_name(), c10::DispatchKey::PrivateUse1,
                                c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<CollectiveKernel>(what)),
                                std::nullopt, nullptr, "kineto_spyre: gloo on the device's memory"));
  }
}

#else
void register_collectives() {}
#endif

}  // namespace kineto_spyre::device
