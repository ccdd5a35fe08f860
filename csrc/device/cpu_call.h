// One call of an op: what was given, what the CPU's kernel sees instead, and the way back.
//
//   CpuCall(plan, arguments)   replaces on the stack, argument by argument:
//     a device tensor            a CPU tensor over the same bytes (a new TensorImpl on a storage alias,
//     storage_alias.h) a device                   the CPU a generator                the CPU generator within it, or
//     within the device's default one (hooks.h) a CPU tensor               stays if it is a scalar or the op takes any
//     device; else this is an error
//   (the caller runs the CPU's kernel)
//   take_results(stack)        replaces on the stack, result by result:
//     an argument handed back    the argument as it was given
//     a view of an argument      a tensor on the device's storage
//     anything else              becomes the device's in place: the same TensorImpl, the same bytes
//   and gives arguments that the kernel resized, or set on another storage, their new shape and memory.
//
// States: made, results taken; nothing is to be done if the kernel throws in between. Errors: c10::Error, in PyTorch's
// words, if tensors lie on several devices; NotImplementedError for a layout that has no alias.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "device/op_plan.h"
#include "device/storage_alias.h"

namespace kineto_spyre::device {

class CpuCall {
 public:
  CpuCall(const OpPlan& plan, c10::IValue* arguments);

  c10::DeviceIndex device() const { return device_; }
  // Where the kernel's results are wanted: the device, or the host (-1) if the op was asked for a CPU tensor.
  c10::DeviceIndex results_on() const;
  // The device tensors that were given, in the order of the arguments, list elements included.
  c10::ArrayRef<at::Tensor> inputs() const { return originals_; }
  // What the CPU's kernel sees in place of each.
  c10::ArrayRef<at::Tensor> aliases() const { return aliases_; }
  // What was returned or changed. Filled by take_results().
  c10::ArrayRef<at::Tensor> written() const { return written_; }

  void take_results(torch::jit::Stack& stack);

 private:
  void replace(const PlannedArgument& a, c10::IValue& v);
  at::Tensor replace_element(const PlannedArgument& a, at::Tensor t);
  at::Tensor alias(const PlannedArgument& a, at::Tensor t);
  at::Tensor seen_by_cpu(const at::Tensor& t);
  void admit_foreign(const PlannedArgument& a, const c10::TensorImpl* impl);
  void refuse_foreign() const;

  const at::Tensor& given(uint16_t argument) const;
  void hand_back(const at::Tensor& original, const at::Tensor& cpu);
  void take_result(c10::IValue& v, int16_t origin);
  at::Tensor adopt(at::Tensor t, bool view);
  void adopt_storage(c10::TensorImpl* impl);

  const OpPlan& plan_;
  c10::DeviceIndex device_ = -1;
  std::optional<c10::Device> requested_;
  bool host_written_ = false;  // writes to a CPU tensor
  c10::IValue* generator_ = nullptr;
  const c10::TensorImpl* foreign_ = nullptr;  // the first tensor that may not take part
  uint16_t foreign_argument_ = 0;
  // One entry for each device tensor that was given.
  c10::SmallVector<at::Tensor, 4> originals_;
  c10::SmallVector<at::Tensor, 4> aliases_;
  c10::SmallVector<uint16_t, 8> arguments_;
  c10::SmallVector<bool, 8> is_written_;

  StorageAliases storages_;
  c10::SmallVector<at::Tensor, 4> written_;
};

}  // namespace kineto_spyre::device
