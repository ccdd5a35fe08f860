#include "device/alias_on_device.h"

#include "device/storage_alias.h"

namespace kineto_spyre::device {

at::Tensor alias_on_device(const c10::Device& device, const at::Tensor& t) {
  if (!t.defined() || t.device() == device) return t;
  at::Tensor other = at::detail::make_tensor<c10::TensorImpl>(
      at::Storage(alias_of(t.storage().unsafeGetStorageImpl(), device, /*resizable=*/false)),
      c10::DispatchKeySet(device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1), t.dtype());
  c10::TensorImpl* impl = other.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  impl->_set_conj(t.is_conj());
  impl->_set_neg(t.is_neg());
  return other;
}

}  // namespace kineto_spyre::device
