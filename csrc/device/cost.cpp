#include "device/cost.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kineto_spyre::device {
namespace {

std::string_view base_name(const c10::OperatorName& name) {
  std::string_view s = name.name;
  const size_t colons = s.find("::");
  return colons == std::string_view::npos ? s : s.substr(colons + 2);
}

// What users call the op: "_softmax" is softmax, "native_layer_norm" is layer_norm, "add_" is add.
std::string_view summary(const c10::OperatorName& name) {
  std::string_view s = base_name(name);
  while (s.starts_with('_')) s.remove_prefix(1);
  while (s.ends_with('_')) s.remove_suffix(1);
  for (const std::string_view prefix : {"native_", "thnn_", "cpu_"}) {
    if (s.starts_with(prefix) && s.size() > prefix.size()) s.remove_prefix(prefix.size());
  }
  if (s.starts_with("scaled_dot_product_")) {
    return s.ends_with("_backward") ? "scaled_dot_product_attention_backward" : "scaled_dot_product_attention";
  }
  return s;
}

spyreDtype_t dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
      return SPYRE_DTYPE_FP16;
    case c10::ScalarType::Float:
      return SPYRE_DTYPE_FP32;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Float8_e4m3fnuz:
    case c10::ScalarType::Float8_e5m2fnuz:
      return SPYRE_DTYPE_FP8;
    case c10::ScalarType::Char:
    case c10::ScalarType::Byte:
    case c10::ScalarType::QInt8:
    case c10::ScalarType::QUInt8:
      return SPYRE_DTYPE_INT8;
    default:
      return SPYRE_DTYPE_OTHER;
  }
}

double size_at(const at::Tensor& t, int64_t from_end) {
  return t.dim() >= from_end ? static_cast<double>(t.sizes()[t.dim() - from_end]) : 1.0;
}

// Multiply-adds of a convolution: each element of the unstrided side meets one filter.
double convolution_macs(const at::Tensor& small_side, const at::Tensor& weight) {
  const double filters = weight.dim() > 0 ? static_cast<double>(weight.sizes()[0]) : 1.0;
  return filters > 0 ? static_cast<double>(small_side.numel()) * static_cast<double>(weight.numel()) / filters : 0.0;
}

double attention_macs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const double heads_and_queries = size_at(q, 1) > 0 ? static_cast<double>(q.numel()) / size_at(q, 1) : 0.0;
  return heads_and_queries * size_at(k, 2) * (size_at(q, 1) + size_at(v, 1));
}

// 64 bits, a word at a time: a traced op pays for it.
struct Hash {
  uint64_t h;
  void number(uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32;
  }
  void text(std::string_view s) {
    for (const char c : s) number(static_cast<uint8_t>(c));
    number(s.size());
  }
  void tensors(c10::ArrayRef<at::Tensor> list) {
    number(list.size());
    for (const at::Tensor& t : list) tensor(t);
  }
  void tensor(const at::Tensor& t) {
    if (!t.defined()) return number(UINT64_MAX);
    if (t.is_nested()) {
      number(static_cast<uint64_t>(t.scalar_type()));
      return number(static_cast<uint64_t>(t.numel()));
    }
    // The strides of a contiguous tensor follow from its sizes.
    const bool strided = t.layout() == c10::kStrided;
    const bool contiguous = strided && t.is_contiguous();
    const c10::IntArrayRef sizes = t.sizes();
    number(static_cast<uint64_t>(t.scalar_type()) << 32 | sizes.size() << 2 | (contiguous ? 2 : strided ? 1 : 0));
    for (const int64_t size : sizes) number(static_cast<uint64_t>(size));
    if (strided && !contiguous) {
      for (const int64_t stride : t.strides()) number(static_cast<uint64_t>(stride));
    }
  }
};

}  // namespace

uint64_t bytes_of(const at::Tensor& t) {
  if (t.layout() != c10::kStrided) return 0;
  return static_cast<uint64_t>(t.numel()) * t.element_size();
}

Arithmetic arithmetic_of(const c10::OperatorName& name) {
  static constexpr std::pair<std::string_view, Arithmetic> kKinds[] = {
      {"mm", Arithmetic::kProduct},
      {"bmm", Arithmetic::kProduct},
      {"mv", Arithmetic::kProduct},
      {"dot", Arithmetic::kProduct},
      {"vdot", Arithmetic::kProduct},
      {"int_mm", Arithmetic::kProduct},
      {"scaled_mm", Arithmetic::kProduct},
      {"addmm", Arithmetic::kAddProduct},
      {"addmm_activation", Arithmetic::kAddProduct},
      {"baddbmm", Arithmetic::kAddProduct},
      {"addmv", Arithmetic::kAddProduct},
      {"addbmm", Arithmetic::kAddBatchSum},
      {"convolution", Arithmetic::kConvolution},
      {"mkldnn_convolution", Arithmetic::kConvolution},
      {"convolution_backward", Arithmetic::kConvolutionBackward},
      {"scaled_dot_product_attention", Arithmetic::kAttention},
      {"scaled_dot_product_attention_backward", Arithmetic::kAttentionBackward},
  };
  const std::string_view s = summary(name);
  for (const auto& [key, kind] : kKinds) {
    if (s == key) return kind;
  }
  for (const std::string_view prefix : {"linalg_", "cholesky", "geqrf", "ormqr", "orgqr", "lu_unpack"}) {
    if (s.starts_with(prefix) && !s.starts_with("linalg_vector_norm") && !s.starts_with("linalg_cross")) {
      return Arithmetic::kFactorisation;
    }
  }
  return Arithmetic::kElementwise;
}

Figures figures_of(Arithmetic kind, bool transposed, c10::ArrayRef<at::Tensor> inputs,
                   c10::ArrayRef<at::Tensor> written) {
  Figures f;
  double elements = 0;
  bool known = false;
  const auto look_at = [&](const at::Tensor& t, uint64_t& bytes) {
    if (!t.defined()) return;
    bytes += bytes_of(t);
    elements = std::max(elements, static_cast<double>(t.numel()));
    if (!known && (t.is_floating_point() || t.is_complex())) {
      f.dtype = dtype_of(t.scalar_type());
      known = true;
    }
  };
  for (const at::Tensor& t : inputs) look_at(t, f.read);
  for (const at::Tensor& t : written) look_at(t, f.written);
  if (!known && !inputs.empty() && inputs[0].defined()) f.dtype = dtype_of(inputs[0].scalar_type());

  const auto in = [&](size_t i) -> const at::Tensor& { return inputs[i]; };
  const double out = written.empty() || !written[0].defined() ? 0.0 : static_cast<double>(written[0].numel());
  f.flops = elements;
  switch (kind) {
    case Arithmetic::kElementwise:
      break;
    case Arithmetic::kProduct:
      if (inputs.size() >= 2) f.flops = 2 * out * size_at(in(0), 1);
      break;
    case Arithmetic::kAddProduct:
      if (inputs.size() >= 3) f.flops = 2 * out * size_at(in(1), 1) + out;
      break;
    case Arithmetic::kAddBatchSum:
      if (inputs.size() >= 3) f.flops = 2 * out * size_at(in(1), 1) * size_at(in(1), 3) + out;
      break;
    case Arithmetic::kConvolution:
      if (inputs.size() >= 2 && !written.empty() && written[0].defined()) {
        f.flops = 2 * convolution_macs(transposed ? in(0) : written[0], in(1));
      }
      break;
    case Arithmetic::kConvolutionBackward:  // (grad_output, input, weight): a convolution for each gradient
      if (inputs.size() >= 3) f.flops = 4 * convolution_macs(transposed ? in(1) : in(0), in(2));
      break;
    case Arithmetic::kAttention:
      if (inputs.size() >= 3) f.flops = 2 * attention_macs(in(0), in(1), in(2));
      break;
    case Arithmetic::kAttentionBackward:  // (grad_out, q, k, v, ...): recomputes the scores, then four products
      if (inputs.size() >= 4) f.flops = 5 * attention_macs(in(1), in(2), in(3));
      break;
    case Arithmetic::kFactorisation:
      if (!inputs.empty() && inputs[0].defined()) f.flops = static_cast<double>(in(0).numel()) * size_at(in(0), 1);
      break;
  }
  return f;
}

KernelNames::KernelNames(const c10::OperatorName& op) {
  Hash hash{0xcbf29ce484222325ULL};
  hash.text(op.name);
  hash.text(op.overload_name);
  hash_ = hash.h;
  prefix_ = "spyre_kernel_v1_";
  prefix_ += summary(op).substr(0, 80);
  prefix_ += '_';
}

KernelName KernelNames::of(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written) const {
  Hash hash{hash_};
  hash.tensors(inputs);
  hash.tensors(written);
  KernelName name;
  static_assert(sizeof(name.text) > 16 + 80 + 1 + 16 + 3);
  char* at = std::copy(prefix_.begin(), prefix_.end(), name.text);
  for (int half = 0; half < 2; ++half) {
    hash.number(0);
    for (int shift = 59; shift > 59 - 8 * 5; shift -= 5) {
      *at++ = "abcdefghijklmnopqrstuvwxyz234567"[hash.h >> shift & 31];
    }
  }
  std::copy_n("#0", 3, at);
  return name;
}

}  // namespace kineto_spyre::device
