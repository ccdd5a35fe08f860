#include "device/cpu_fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/allocator.h"
#include "device/backward_threads.h"
#include "device/cpu_call.h"
#include "device/launch.h"
#include "device/op_plan.h"
#include "device/wider_dtypes.h"

namespace kineto_spyre::device {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

void run_cpu_kernel(const OpPlan& plan, const CpuCall& call, DispatchKey cpu, const c10::OperatorHandle& op,
                    Stack* stack) {
  follow_backwards_caller();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  // The guard is not free, and only a profiler's callbacks would see what it hides.
  std::optional<at::RecordFunctionGuard> unseen;
  if (at::hasCallbacks()) unseen.emplace(/*is_enabled=*/false);
  const KernelScope scope(call.results_on());
  with_dtypes_of_the_cpu(plan, call.aliases(), *stack,
                         [&] { c10::Dispatcher::singleton().redispatchBoxed(op, c10::DispatchKeySet(cpu), stack); });
}

// An op whose results are all empty launches nothing; so does one without results whose inputs are all empty.
bool did_work(const CpuCall& call) {
  const auto has_elements = [](const at::Tensor& t) { return t.numel() > 0; };
  const auto tensors = call.written().empty() ? call.inputs() : call.written();
  return std::any_of(tensors.begin(), tensors.end(), has_elements);
}

void launch_kernel(const OpPlan& plan, const CpuCall& call, bool transposed, int64_t measured_ns) {
  launch(call.device(), plan.kernels, figures_of(plan.arithmetic, transposed, call.inputs(), call.written()),
         measured_ns, call.inputs(), call.written());
}

// A small copy between devices that changes neither dtype nor layout is made here: the ways to and from the CPU's
// kernel would cost more than the copy. Returns false, and does nothing, if it is none.
bool copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  constexpr uint64_t kSmall = uint64_t{64} << 10;
  const auto* t = to.unsafeGetTensorImpl();
  const auto* f = from.unsafeGetTensorImpl();
  const c10::DispatchKeySet dense(c10::DispatchKey::Dense);
  if (t->device() == f->device() || !t->key_set().has_all(dense) || !f->key_set().has_all(dense)) return false;
  if (!(t->is_cpu() || t->is_privateuseone()) || !(f->is_cpu() || f->is_privateuseone())) return false;
  if (t->dtype() != f->dtype() || t->is_conj() != f->is_conj() || t->is_neg() != f->is_neg()) return false;
  if (t->sizes() != f->sizes() || t->strides() != f->strides() || !t->is_non_overlapping_and_dense()) return false;
  const uint64_t bytes = bytes_of(to);
  if (bytes > kSmall) return false;
  refuse_in_fork();
  if (bytes > 0) std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
  return true;
}

void run_copy(const OpPlan& plan, DispatchKey cpu, const c10::OperatorHandle& op, Stack* stack) {
  c10::IValue* arguments = stack->data() + (stack->size() - plan.argument_count);
  const at::Tensor to = arguments[0].toTensor(), from = arguments[1].toTensor();
  const bool non_blocking = arguments[2].toBool();
  if (copy_bytes(to, from)) {
    torch::jit::drop(*stack, plan.argument_count);
    launch_copy(to, from, non_blocking);
    return torch::jit::push(*stack, to);
  }
  CpuCall call(plan, arguments);
  const int64_t begin = stopwatch();
  run_cpu_kernel(plan, call, cpu, op, stack);
  const int64_t measured = elapsed_since(begin);
  call.take_results(*stack);
  if (to.device() != from.device()) return launch_copy(to, from, non_blocking);
  if (bytes_of(to) > 0) launch_kernel(plan, call, /*transposed=*/false, measured);
}

void run(const OpPlan& plan, DispatchKey cpu, const c10::OperatorHandle& op, Stack* stack) {
  if (plan.effect == TimelineEffect::kCopy) return run_copy(plan, cpu, op, stack);
  if (plan.effect == TimelineEffect::kFill && launch_zero_fill(stack->back().toTensor())) return;  // returns its input
  c10::IValue* arguments = stack->data() + (stack->size() - plan.argument_count);
  const bool transposed = plan.transposed >= 0 && arguments[plan.transposed].toBool();
  CpuCall call(plan, arguments);
  const int64_t begin = stopwatch();
  run_cpu_kernel(plan, call, cpu, op, stack);
  const int64_t measured = elapsed_since(begin);
  call.take_results(*stack);
  switch (plan.effect) {
    case TimelineEffect::kNothing:
      break;
    case TimelineEffect::kReadBack:
      launch_read_back(call.device(), call.inputs().empty() ? 1 : call.inputs()[0].element_size());
      break;
    case TimelineEffect::kCopy:
    case TimelineEffect::kFill:
    case TimelineEffect::kKernel:
      if (did_work(call)) launch_kernel(plan, call, transposed, measured);
      if (plan.waits) launch_read_back(call.device(), sizeof(int64_t));
      break;
  }
}

class CpuFallbackKernel final : public c10::OperatorKernel {
 public:
  CpuFallbackKernel(const c10::OperatorHandle& op, DispatchKey cpu) : plan_(op), cpu_(cpu) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) { run(plan_, cpu_, op, stack); }

 private:
  OpPlan plan_;
  DispatchKey cpu_;
};

// For ops that were registered after us.
class LateOps final : public c10::OperatorKernel {
 public:
  explicit LateOps(DispatchKey cpu) : cpu_(cpu) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(cpu_), "spyre has no kernel for ",
                                op.operator_name(), ", and neither has the CPU (", cpu_, "), whose kernels it uses.");
    run(plan(op), cpu_, op, stack);
  }

 private:
  const OpPlan& plan(const c10::OperatorHandle& op) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<OpPlan>& p = plans_[op.operator_name()];
    if (!p) p = std::make_unique<OpPlan>(op);
    return *p;
  }
  DispatchKey cpu_;
  std::mutex mutex_;
  std::unordered_map<c10::OperatorName, std::unique_ptr<OpPlan>> plans_;
};

// Ops that have a CPU kernel of their own, and yet are not ours to take: the collectives (collectives.h), and layouts
// of the CPU's alone.
bool is_exception(const c10::OperatorName& name) {
  const std::string_view n = name.name;
  return n.starts_with("c10d::") || n.starts_with("onednn::") || n.starts_with("mkldnn") || n == "aten::to_mkldnn" ||
         n == "aten::_make_dep_token";
}

// Registers for `spyre` each op that has a kernel for `cpu` and none of ours yet, and the ops in `more`.
void register_for(DispatchKey spyre, DispatchKey cpu, const std::vector<c10::OperatorName>& more) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  const char* const who = "kineto_spyre: the CPU's kernel on an alias";
  std::vector<c10::OperatorName> names = dispatcher.getAllOpNamesForDispatchKey(cpu);
  names.insert(names.end(), more.begin(), more.end());
  for (const c10::OperatorName& name : names) {
    const auto op = dispatcher.findSchema(name);
    if (!op || is_exception(name) || op->hasKernelForDispatchKey(spyre)) continue;
    kept->push_back(dispatcher.registerImpl(
        name, spyre, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<CpuFallbackKernel>(*op, cpu)),
        std::nullopt, nullptr, who));
  }
  kept->push_back(dispatcher.registerFallback(
      spyre, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<LateOps>(cpu)), who));
}

}  // namespace

void register_cpu_fallback() {
  // Where a composite kernel's choice depends on the device, the CPU's choice is taken as a whole.
  register_for(DispatchKey::PrivateUse1, DispatchKey::CPU,
               {{"aten::convolution", ""}, {"aten::convolution_backward", ""}, {"aten::copy_", ""}});
  register_for(DispatchKey::QuantizedPrivateUse1, DispatchKey::QuantizedCPU, {{"aten::copy_", ""}});
  register_for(DispatchKey::SparsePrivateUse1, DispatchKey::SparseCPU, {{"aten::copy_", ""}});
  register_for(DispatchKey::NestedTensorPrivateUse1, DispatchKey::NestedTensorCPU, {});
  register_for(DispatchKey::SparseCsrPrivateUse1, DispatchKey::SparseCsrCPU, {{"aten::copy_", ""}});
}

}  // namespace kineto_spyre::device
