// Sparse tensors, which have dense ones for members: COO has indices and values, the compressed layouts two index
// tensors and values. Between the device and the CPU they are made anew around the same members' bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace kineto_spyre::device {

using Convert = c10::function_ref<at::Tensor(const at::Tensor&)>;

inline bool is_sparse(const c10::TensorImpl* impl) {
  const c10::Layout layout = impl->layout();
  return layout == c10::kSparse || layout == c10::kSparseCsr || layout == c10::kSparseCsc ||
         layout == c10::kSparseBsr || layout == c10::kSparseBsc;
}

// A tensor on `device` like the sparse tensor `t`, each of whose members is convert(member), on that device.
at::Tensor sparse_on(c10::Device device, const at::Tensor& t, Convert convert);

// Gives the sparse tensor `to` the shape of `from`, and convert(member) for each of its members.
void sparse_assign(const at::Tensor& to, const at::Tensor& from, Convert convert);

}  // namespace kineto_spyre::device
