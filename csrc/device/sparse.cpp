#include "device/sparse.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

#include "device/runtime.h"

namespace kineto_spyre::device {

void sparse_assign(const at::Tensor& to, const at::Tensor& from, Convert convert) {
  if (from.layout() == c10::kSparse) {
    const auto* f = static_cast<at::SparseTensorImpl*>(from.unsafeGetTensorImpl());
    auto* t = static_cast<at::SparseTensorImpl*>(to.unsafeGetTensorImpl());
    t->raw_resize_(f->sparse_dim(), f->dense_dim(), f->sizes());
    t->set_indices_and_values_unsafe(convert(f->indices()), convert(f->values()));
    t->set_coalesced(f->coalesced());
  } else {
    const auto* f = static_cast<at::SparseCsrTensorImpl*>(from.unsafeGetTensorImpl());
    auto* t = static_cast<at::SparseCsrTensorImpl*>(to.unsafeGetTensorImpl());
    t->set_member_tensors(convert(f->compressed_indices()), convert(f->plain_indices()), convert(f->values()),
                          f->sizes());
  }
}

at::Tensor sparse_on(c10::Device device, const at::Tensor& t, Convert convert) {
  const bool host = device.is_cpu();
  at::Tensor made;
  if (t.layout() == c10::kSparse) {
    made = at::detail::make_tensor<at::SparseTensorImpl>(
        c10::DispatchKeySet(host ? c10::DispatchKey::SparseCPU : c10::DispatchKey::SparsePrivateUse1), t.dtype());
  } else {
    made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
        c10::DispatchKeySet(host ? c10::DispatchKey::SparseCsrCPU : c10::DispatchKey::SparseCsrPrivateUse1), device,
        t.layout(), t.dtype());
  }
  sparse_assign(made, t, convert);
  return made;
}

}  // namespace kineto_spyre::device
