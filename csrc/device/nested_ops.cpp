#include "device/nested_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <vector>

namespace kineto_spyre::device {
namespace {

using c10::DispatchKey;

// The CPU's kernel, on the arguments as they are.
class SameKernel final : public c10::OperatorKernel {
 public:
  explicit SameKernel(DispatchKey cpu) : cpu_(cpu) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    op.getComputedKernelForDispatchKey(cpu_).callBoxed(op, keys, stack);
  }

 private:
  DispatchKey cpu_;
};

// Whether it has code for the CPU within, and so must see CPU tensors: cpu_fallback.h takes it.
bool is_fused(const c10::OperatorName& name) {
  return name.name == "aten::_transformer_encoder_layer_fwd" || name.name == "aten::_native_multi_head_attention";
}

}  // namespace

void register_nested_ops() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  const auto take = [&](const c10::OperatorName& name, DispatchKey spyre, DispatchKey cpu) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasComputedKernelForDispatchKey(cpu)) return;
    kept->push_back(dispatcher.registerImpl(
        name, spyre, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<SameKernel>(cpu)), std::nullopt,
        nullptr, "kineto_spyre: the CPU's nested kernel on the device's buffer"));
  };
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(DispatchKey::NestedTensorCPU)) {
    if (is_fused(name)) continue;
    take(name, DispatchKey::NestedTensorPrivateUse1, DispatchKey::NestedTensorCPU);
  }
  // What makes a nested tensor of a dense one.
  for (const char* name : {"aten::_nested_view_from_buffer", "aten::_nested_from_padded",
                           "aten::_nested_tensor_from_mask", "aten::_nested_tensor_from_mask_left_aligned"}) {
    take({name, ""}, DispatchKey::PrivateUse1, DispatchKey::CPU);
  }
}

}  // namespace kineto_spyre::device
