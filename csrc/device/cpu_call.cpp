#include "device/cpu_call.h"

#include <ATen/core/List.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <string>
#include <utility>

#include "device/allocator.h"
#include "device/hooks.h"
#include "device/runtime.h"
#include "device/sparse.h"

namespace kineto_spyre::device {
namespace {

using c10::IValue;
using c10::StorageImpl;
using c10::TensorImpl;

bool is_dense_strided(const TensorImpl* impl) {
  return impl->layout() == c10::kStrided && impl->has_storage() && !impl->key_set().has(c10::DispatchKey::Quantized) &&
         !impl->is_nested();
}

at::Storage storage_of(StorageImpl* impl) { return at::Storage(c10::intrusive_ptr<StorageImpl>::reclaim_copy(impl)); }

}  // namespace

CpuCall::CpuCall(const OpPlan& plan, IValue* arguments) : plan_(plan) {
  for (const PlannedArgument& a : plan.arguments) replace(a, arguments[a.index]);
  if (device_ < 0) {  // a factory: the device is an argument, and asked of the thread if it has no index
    device_ = requested_ ? resolve(requested_->index()) : current_device();
  }
  if (generator_ != nullptr) *generator_ = IValue(cpu_generator(*generator_, device_));
}

c10::DeviceIndex CpuCall::results_on() const {
  return host_written_ || (requested_ && requested_->type() != kSpyre) ? -1 : device_;
}

// The way in.

void CpuCall::replace(const PlannedArgument& a, IValue& v) {
  switch (a.kind) {
    case ArgumentKind::kTensor:
      if (v.isTensor()) {
        TensorImpl* impl = v.unsafeToTensorImpl();
        if (impl->is_privateuseone()) [[likely]] {
          v = alias(a, std::move(v).toTensor());
        } else {
          admit_foreign(a, impl);
        }
      }
      break;
    case ArgumentKind::kTensorList:
      if (v.isTensorList()) {
        c10::List<at::Tensor> list = v.toTensorList();
        c10::List<at::Tensor> made;
        made.reserve(list.size());
        for (size_t i = 0; i < list.size(); ++i) made.push_back(replace_element(a, list.get(i)));
        v = std::move(made);
      }
      break;
    case ArgumentKind::kOptionalTensorList:
      if (v.isList()) {
        c10::List<std::optional<at::Tensor>> made;
        for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector()) {
          made.push_back(t && t->defined() ? std::optional(replace_element(a, *t)) : t);
        }
        v = std::move(made);
      }
      break;
    case ArgumentKind::kDevice:
      if (v.isDevice()) {
        requested_ = v.toDevice();
        v = c10::Device(c10::kCPU);
      }
      break;
    case ArgumentKind::kGenerator:
      generator_ = &v;
      break;
    case ArgumentKind::kStorage:
      if (v.isStorage()) {
        const at::Storage storage = v.toStorage();
        if (storage.device_type() == kSpyre) v = at::Storage(storages_.of(storage.unsafeGetStorageImpl()));
      }
      break;
  }
}

at::Tensor CpuCall::replace_element(const PlannedArgument& a, at::Tensor t) {
  if (!t.defined()) return t;
  if (t.device().type() == kSpyre) return alias(a, std::move(t));
  admit_foreign(a, t.unsafeGetTensorImpl());
  return t;
}

// A tensor that is not the device's: a CPU scalar may take part in anything, more than that only in few ops.
void CpuCall::admit_foreign(const PlannedArgument& a, const TensorImpl* impl) {
  if (impl == c10::UndefinedTensorImpl::singleton()) return;
  if (a.written) host_written_ = true;
  if (plan_.any_device) return;
  if (impl->is_cpu() && impl->dim() == 0) return;
  if (foreign_ == nullptr) {
    foreign_ = impl;
    foreign_argument_ = a.index;
  }
  refuse_foreign();
}

void CpuCall::refuse_foreign() const {
  if (foreign_ == nullptr || device_ < 0) return;
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, spyre:", int{device_},
              " and ", foreign_->device(), "! (when checking argument ", foreign_argument_ + 1, " of ", plan_.name.name,
              ") Move it with .to(\"spyre\").");
}

at::Tensor CpuCall::alias(const PlannedArgument& a, at::Tensor t) {
  TensorImpl* impl = t.unsafeGetTensorImpl();
  const c10::DeviceIndex index = impl->device().index();
  if (device_ < 0) {
    device_ = index;
    refuse_foreign();
  } else if (index != device_ && !plan_.any_device) {
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, spyre:", int{device_},
                " and spyre:", int{index}, "! (when checking argument ", a.index + 1, " of ", plan_.name.name, ")");
  }
  at::Tensor cpu = seen_by_cpu(t);
  // Some kernels choose their way by it: convolutions, sparse products.
  if (impl->requires_grad()) cpu.unsafeGetTensorImpl()->set_requires_grad(true);
  originals_.push_back(std::move(t));
  aliases_.push_back(cpu);
  arguments_.push_back(a.index);
  is_written_.push_back(a.written);
  return cpu;
}

at::Tensor CpuCall::seen_by_cpu(const at::Tensor& t) {
  const TensorImpl* impl = t.unsafeGetTensorImpl();
  if (is_dense_strided(impl)) [[likely]] {
    at::Tensor cpu =
        at::detail::make_tensor<TensorImpl>(at::Storage(storages_.of(impl->unsafe_storage().unsafeGetStorageImpl())),
                                            c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
    TensorImpl* made = cpu.unsafeGetTensorImpl();
    made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
    if (impl->is_conj()) made->_set_conj(true);
    if (impl->is_neg()) made->_set_neg(true);
    if (impl->is_wrapped_number()) made->set_wrapped_number(true);
    return cpu;
  }
  if (is_sparse(impl)) {
    return sparse_on(c10::Device(c10::kCPU), t, [this](const at::Tensor& member) { return seen_by_cpu(member); });
  }
  auto copy = impl->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
  TORCH_CHECK_NOT_IMPLEMENTED(copy->has_storage(), "spyre has no kernel for ", plan_.name, " of a tensor with layout ",
                              impl->layout(), ". Call it on the CPU.");
  copy->_change_backend_component_keys(c10::Device(c10::kCPU));
  copy->set_storage_keep_dtype(at::Storage(storages_.of(impl->unsafe_storage().unsafeGetStorageImpl())));
  return at::Tensor(std::move(copy));
}

// The way back.

void CpuCall::take_results(torch::jit::Stack& stack) {
  const size_t base = stack.size() - plan_.returns.size();
  storages_.hand_back(device_);
  for (size_t i = 0; i < originals_.size(); ++i) {
    if (is_written_[i]) hand_back(originals_[i], aliases_[i]);
  }
  for (size_t i = 0; i < plan_.returns.size(); ++i) take_result(stack[base + i], plan_.returns[i]);
  for (size_t i = 0; i < originals_.size(); ++i) {
    if (is_written_[i]) written_.push_back(originals_[i]);
  }
}

void CpuCall::take_result(IValue& v, int16_t origin) {
  const bool view = origin == OpPlan::kView;
  if (v.isTensor()) {
    if (origin >= 0) {  // what it was given: the device's tensor, or a CPU tensor that stayed on the stack
      if (const at::Tensor& t = given(static_cast<uint16_t>(origin)); t.defined()) v = t;
      return;
    }
    at::Tensor t = adopt(std::move(v).toTensor(), view);
    if (t.defined()) written_.push_back(t);
    v = std::move(t);
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> list = v.toTensorList();
    c10::List<at::Tensor> made;
    made.reserve(list.size());
    for (size_t k = 0; k < list.size(); ++k) {
      made.push_back(adopt(list.extract(k), view));
      written_.push_back(made.get(k));
    }
    v = std::move(made);
  }
}

const at::Tensor& CpuCall::given(uint16_t argument) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i] == argument) return originals_[i];
  }
  static const at::Tensor none;
  return none;
}

// Shape and memory of a written argument.
void CpuCall::hand_back(const at::Tensor& original, const at::Tensor& cpu) {
  TensorImpl* to = original.unsafeGetTensorImpl();
  TensorImpl* from = cpu.unsafeGetTensorImpl();
  if (is_sparse(to)) {
    sparse_assign(original, cpu, [this](const at::Tensor& member) { return adopt(member, /*view=*/false); });
    return;
  }
  if (!is_dense_strided(to)) return;
  const at::Storage& storage = from->unsafe_storage();
  StorageImpl* behind = storages_.behind(storage.unsafeGetStorageImpl());
  if (behind == nullptr) {  // now on a storage of the kernel's making
    claim(storage.unsafeGetStorageImpl(), device_);
    to->set_storage_keep_dtype(storage);
  } else if (behind != to->unsafe_storage().unsafeGetStorageImpl()) {  // now on another argument's
    to->set_storage_keep_dtype(storage_of(behind));
  }
  if (to->sizes() != from->sizes() || to->strides() != from->strides() ||
      to->storage_offset() != from->storage_offset()) {
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

at::Tensor CpuCall::adopt(at::Tensor t, bool view) {
  if (!t.defined() || t.device().type() != c10::kCPU || results_on() < 0) return t;
  if (t.use_count() > 1) {
    for (size_t i = 0; i < aliases_.size(); ++i) {
      if (!aliases_[i].is_same(t)) continue;
      if (!view) return originals_[i];
      break;
    }
  }
  if (is_sparse(t.unsafeGetTensorImpl())) {
    return sparse_on(c10::Device(kSpyre, device_), t,
                     [this](const at::Tensor& member) { return adopt(member, /*view=*/false); });
  }
  if (t.use_count() > 1) {
    // Someone keeps it, so it can't change under them.
    t = at::Tensor(t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
  }
  adopt_storage(t.unsafeGetTensorImpl());
  return t;
}

void CpuCall::adopt_storage(TensorImpl* impl) {
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), "spyre can't hold the result of ", plan_.name, ", whose layout is ",
                              impl->layout(), ". Call it on the CPU.");
  StorageImpl* s = impl->unsafe_storage().unsafeGetStorageImpl();
  const bool shared = impl->unsafe_storage().use_count() > 1;
  StorageImpl* behind = shared ? storages_.behind(s) : nullptr;
  const c10::DataPtr& data = s->_mutable_data_ptr_no_checks();
  impl->_change_backend_component_keys(c10::Device(kSpyre, device_));
  if (behind != nullptr) {
    impl->set_storage_keep_dtype(storage_of(behind));
  } else if (shared && data.device().type() != kSpyre && !is_memory_of(device_, data)) {
    // A view of a CPU argument: its bytes stay the CPU's, the result gets its own.
    impl->set_storage_keep_dtype(at::Storage(copied_to(device_, *s)));
  } else {
    claim(s, device_);
    impl->set_storage_keep_dtype(at::Storage(impl->unsafe_storage()));  // takes over the storage's device
  }
}

}  // namespace kineto_spyre::device
