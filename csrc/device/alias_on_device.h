// The same bytes under another device's name, without a copy.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>

namespace kineto_spyre::device {

// A tensor on `device` (CPU or a spyre) over the bytes of the strided tensor `t`, whose storage it keeps. `t` itself if
// it is there already, or undefined.
at::Tensor alias_on_device(const c10::Device& device, const at::Tensor& t);

// Replaces each tensor in `v`, a tensor or (nested) lists of them, by f(tensor).
template <class F>
void map_tensors(c10::IValue& v, F& f) {
  if (v.isTensor()) {
    v = f(v.toTensor());
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> made;
    for (const at::Tensor& t : v.toTensorVector()) made.push_back(f(t));
    v = std::move(made);
  } else if (v.isList() && v.toListRef().size() > 0 && v.toListRef()[0].isTensorList()) {
    c10::List<c10::List<at::Tensor>> made;
    for (c10::IValue inner : v.toListRef()) {
      map_tensors(inner, f);
      made.push_back(std::move(inner).toTensorList());
    }
    v = std::move(made);
  }
}
template <class F>
void map_tensors(c10::IValue& v, F&& f) {
  map_tensors<F>(v, f);
}

}  // namespace kineto_spyre::device
