#include "device/factory_ops.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>

#include "device/allocator.h"
#include "device/launch.h"
#include "device/runtime.h"

namespace kineto_spyre::device {
namespace {

using at::Tensor;

c10::DeviceIndex device_of(const std::optional<c10::Device>& device) {
  return resolve(device ? device->index() : c10::DeviceIndex{-1});
}

void refuse_options(const std::optional<c10::Layout>& layout, const std::optional<bool>& pinned) {
  TORCH_CHECK(!layout || *layout == c10::kStrided, "spyre makes strided tensors only, not layout ", *layout, ".");
  TORCH_CHECK(!pinned || !*pinned, "Only dense CPU tensors can be pinned");
}

// The allocator takes memory of the current device, so that is set for the call.
class OnDevice {
 public:
  explicit OnDevice(c10::DeviceIndex device) : previous_(exchange_device(device)) {}
  ~OnDevice() { exchange_device(previous_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  c10::DeviceIndex previous_;
};

Tensor empty(at::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
             std::optional<c10::Device> device, std::optional<bool> pinned,
             std::optional<c10::MemoryFormat> memory_format) {
  refuse_options(layout, pinned);
  const OnDevice on(device_of(device));
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), memory_format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pinned) {
  refuse_options(layout, pinned);
  const OnDevice on(device_of(device));
  return at::detail::empty_strided_generic(
      size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  const_cast<Tensor&>(to).copy_(self, non_blocking);
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  to.resize_(self.sizes());
  const_cast<Tensor&>(to).copy_(self);
  return to;
}

// Whether a tensor may take the other's place by `.data =`: then Module.to("spyre") keeps its parameters, and an
// optimizer that was made before goes on with them.
bool may_become(const Tensor& self, const Tensor& from) {
  const auto dense = [](const Tensor& t) {
    return (t.is_cpu() || t.is_privateuseone()) && t.key_set().has(c10::DispatchKey::Dense);
  };
  return self.key_set() == from.key_set() || (dense(self) && dense(from));
}

// A tensor used on another stream needs no care: see allocator.h.
void record_stream(Tensor&, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == kSpyre, "record_stream: expected a stream of spyre, not of ",
              stream.device_type(), ".");
}

Tensor convolution_overrideable(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                                at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(const Tensor& gradient, const Tensor& input,
                                                                     const Tensor& weight, at::IntArrayRef stride,
                                                                     at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                     bool transposed, at::IntArrayRef output_padding,
                                                                     int64_t groups, std::array<bool, 3> mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  return at::convolution_backward(gradient, input, weight, at::IntArrayRef(channels), stride, padding, dilation,
                                  transposed, output_padding, groups, mask);
}

// A value for the host. The kernel of the CPU reads one element, and does not look at the device.
at::Scalar local_scalar_dense(const Tensor& self) {
  refuse_in_fork();
  launch_read_back(self.device().index(), self.element_size());
  return at::native::_local_scalar_dense_cpu(self);
}

// PyTorch's own takes native_dropout on devices such as ours, which rounds its scale differently from what it does on
// the CPU. This is the CPU's way, out of differentiable ops.
Tensor dropout(const Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.numel() == 0) return input;
  if (p == 1) return input.mul(at::zeros({}, input.options()));
  Tensor noise = at::empty_like(input);
  noise.bernoulli_(1 - p);
  noise.div_(1 - p);
  return input.mul(noise);
}

// The kernels are the CPU's, so the choice among them is as well.
int64_t sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                   double dropout_p, bool causal, std::optional<double> scale, bool enable_gqa) {
  return at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, mask,
                                                 dropout_p, causal, scale, enable_gqa);
}

}  // namespace

void register_factory_ops() {
  using torch::Library;
  static auto* dense = new Library(Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  dense->impl("empty.memory_format", TORCH_FN(empty));
  dense->impl("empty_strided", TORCH_FN(empty_strided));
  dense->impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  dense->impl("view", TORCH_FN(at::native::view));
  dense->impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  dense->impl("_copy_from", TORCH_FN(copy_from));
  dense->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  dense->impl("_has_compatible_shallow_copy_type", TORCH_FN(may_become));
  dense->impl("record_stream", TORCH_FN(record_stream));
  dense->impl("convolution_overrideable", TORCH_FN(convolution_overrideable));
  dense->impl("convolution_backward_overrideable", TORCH_FN(convolution_backward_overrideable));
  dense->impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  dense->impl("dropout", TORCH_FN(dropout));

  static auto* autograd = new Library(Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd->impl("dropout", TORCH_FN(dropout));

  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&sdp_choice);
}

}  // namespace kineto_spyre::device
