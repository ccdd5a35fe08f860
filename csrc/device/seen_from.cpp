#include "device/seen_from.h"

#include "device/allocator.h"

namespace kineto_spyre::device {
namespace {
void release_storage(void* context) { c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(context)); }
}  // namespace

at::Tensor seen_from(const c10::Device& device, const at::Tensor& t) {
  if (!t.defined() || t.device() == device) return t;
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(storage);  // released by release_storage()
  c10::DataPtr data(storage->_mutable_data_ptr_no_checks().get(), storage, &release_storage, device);
  const bool host = device.type() == c10::kCPU;
  auto made = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage->nbytes(),
                                                    std::move(data), host ? cpu_allocator() : allocator(),
                                                    /*resizable=*/false);
  at::Tensor other = at::detail::make_tensor<c10::TensorImpl>(
      at::Storage(std::move(made)), c10::DispatchKeySet(host ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1),
      t.dtype());
  c10::TensorImpl* impl = other.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  impl->_set_conj(t.is_conj());
  impl->_set_neg(t.is_neg());
  return other;
}

}  // namespace kineto_spyre::device
