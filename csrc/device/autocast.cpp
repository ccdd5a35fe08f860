#include "device/autocast.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string_view>
#include <vector>

#include "device/alias_on_device.h"
#include "device/runtime.h"

// Of ATen/autocast_mode.h, whose templates for each op we don't use and which includes all of ATen.
namespace at::autocast {
TORCH_API Tensor cached_cast(at::ScalarType to_type, const Tensor& arg, c10::DeviceType device_type);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
}  // namespace at::autocast

namespace kineto_spyre::device {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

enum class Policy { kLower, kFloat, kPromote };

// Which ops are cast is asked of the dispatcher (those of the CPU); how, it does not tell. Matrix products,
// convolutions and attention get the lower precision, joining ops the widest of what they join, the rest float32.
Policy policy_of(const c10::OperatorName& name) {
  std::string_view s = name.name;
  if (s.starts_with("aten::")) s.remove_prefix(6);
  for (const std::string_view op : {"stack", "cat", "index_copy"}) {
    if (s == op) return Policy::kPromote;
  }
  for (const std::string_view op : {"conv1d",
                                    "conv2d",
                                    "conv3d",
                                    "conv_tbc",
                                    "conv_transpose1d",
                                    "conv_transpose2d",
                                    "conv_transpose3d",
                                    "_convolution",
                                    "bmm",
                                    "mm",
                                    "linalg_vecdot",
                                    "baddbmm",
                                    "addmm",
                                    "_addmm_activation",
                                    "addbmm",
                                    "linear",
                                    "matmul",
                                    "mkldnn_rnn_layer",
                                    "prelu",
                                    "scaled_dot_product_attention",
                                    "_native_multi_head_attention"}) {
    if (s == op) return Policy::kLower;
  }
  return Policy::kFloat;
}

bool eligible(const at::Tensor& t) {
  return t.defined() && t.is_privateuseone() && t.is_floating_point() && t.scalar_type() != at::kDouble;
}

class Cast final : public c10::OperatorKernel {
 public:
  explicit Cast(Policy policy) : policy_(policy) {}

  void operator()(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKey::AutocastPrivateUse1);
    const size_t count = op.schema().arguments().size();
    IValue* arguments = stack->data() + (stack->size() - count);
    at::ScalarType to = at::kFloat;
    if (policy_ != Policy::kFloat) to = at::autocast::get_autocast_dtype(kSpyre);
    if (policy_ == Policy::kPromote) {
      for (size_t i = 0; i < count; ++i) {
        map_tensors(arguments[i], [&](const at::Tensor& t) {
          if (eligible(t) && t.scalar_type() == at::kFloat) to = at::kFloat;
          return t;
        });
      }
    }
    for (size_t i = 0; i < count; ++i) {
      map_tensors(arguments[i],
                  [&](const at::Tensor& t) { return t.defined() ? at::autocast::cached_cast(to, t, kSpyre) : t; });
    }
    c10::Dispatcher::singleton().redispatchBoxed(
        op, keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::AutocastPrivateUse1), stack);
  }

 private:
  Policy policy_;
};

}  // namespace

void register_autocast() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  kept->push_back(dispatcher.registerFallback(DispatchKey::AutocastPrivateUse1, c10::KernelFunction::makeFallthrough(),
                                              "kineto_spyre: not cast"));
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(DispatchKey::AutocastCPU)) {
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(DispatchKey::AutocastPrivateUse1)) continue;
    kept->push_back(
        dispatcher.registerImpl(name, DispatchKey::AutocastPrivateUse1,
                                c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Cast>(policy_of(name))),
                                std::nullopt, nullptr, "kineto_spyre: the CPU's casts"));
  }
}

}  // namespace kineto_spyre::device
