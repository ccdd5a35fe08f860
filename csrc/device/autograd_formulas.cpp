#include "device/autograd_formulas.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

namespace kineto_spyre::device {
namespace {

using at::Tensor;
using c10::DispatchKey;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Norm = std::tuple<Tensor, Tensor, Tensor>;  // the result, the groups' means and reciprocal deviations

struct Sizes {
  int64_t n, c, hxw, groups;
};

const c10::OperatorHandle& group_norm_op() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::native_group_norm", "");
  return op;
}

// As PyTorch differentiates it. Its kernel is asked of a key that no device of this process has taken.
Norm pytorchs_own(c10::DispatchKeySet keys, const Tensor& x, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, const Sizes& s, double eps) {
  torch::jit::Stack stack{x, weight, bias, s.n, s.c, s.hxw, s.groups, eps};
  group_norm_op()
      .getComputedKernelForDispatchKey(DispatchKey::AutogradPrivateUse3)
      .callBoxed(group_norm_op(), keys, &stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

std::optional<Tensor> optional(const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

class GroupNorm : public torch::autograd::Function<GroupNorm> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& weight,
                               const std::optional<Tensor>& bias, int64_t n, int64_t c, int64_t hxw, int64_t groups,
                               double eps) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [y, mean, rstd] = at::native_group_norm(x, weight, bias, n, c, hxw, groups, eps);
    context->set_materialize_grads(false);
    context->save_for_backward({x, weight.value_or(Tensor()), bias.value_or(Tensor()), mean, rstd});
    for (const auto& [key, value] : {std::pair{"n", n}, {"c", c}, {"hxw", hxw}, {"groups", groups}}) {
      context->saved_data[key] = value;
    }
    context->saved_data["eps"] = eps;
    return {y, mean, rstd};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto number = [&](const char* key) { return context->saved_data[key].toInt(); };
    const Sizes s{number("n"), number("c"), number("hxw"), number("groups")};
    variable_list result(8);  // one for each argument of forward()
    std::array<bool, 3> mask{};
    for (size_t i = 0, edge = 0; i < 3; ++i) {  // a weight or bias that was not given has no edge
      mask[i] = saved[i].defined() && context->needs_input_grad(edge++);
    }
    if (at::GradMode::is_enabled() || gradients[1].defined() || gradients[2].defined()) {
      differentiate_again(saved, s, context->saved_data["eps"].toDouble(), gradients, mask, result);
    } else if (gradients[0].defined()) {
      const Tensor& x = saved[0];
      const auto format = x.suggest_memory_format();
      std::tie(result[0], result[1], result[2]) =
          at::native_group_norm_backward(gradients[0].contiguous(format), x.contiguous(format), saved[3], saved[4],
                                         optional(saved[1]), s.n, s.c, s.hxw, s.groups, mask);
    }
    return result;
  }

 private:
  // Through a graph of PyTorch's own, for which it has formulas that can be differentiated.
  static void differentiate_again(const variable_list& saved, const Sizes& s, double eps,
                                  const variable_list& gradients, const std::array<bool, 3>& mask,
                                  variable_list& result) {
    const bool create_graph = at::GradMode::is_enabled();
    const at::AutoGradMode record(true);
    // Not those of the tensor: it has keys that the dispatcher would have left out.
    const c10::DispatchKeySet keys({DispatchKey::PrivateUse1, DispatchKey::AutogradPrivateUse1});
    const auto [y, mean, rstd] = pytorchs_own(keys, saved[0], optional(saved[1]), optional(saved[2]), s, eps);
    variable_list ends, weights, inputs;
    for (size_t i = 0; i < 3; ++i) {
      if (!gradients[i].defined()) continue;
      ends.push_back(i == 0 ? y : i == 1 ? mean : rstd);
      weights.push_back(gradients[i]);
    }
    for (size_t i = 0; i < 3; ++i) {
      if (mask[i]) inputs.push_back(saved[i]);
    }
    if (ends.empty() || inputs.empty()) return;
    const variable_list found = torch::autograd::grad(ends, inputs, weights, /*retain_graph=*/create_graph,
                                                      create_graph, /*allow_unused=*/true);
    for (size_t i = 0, k = 0; i < 3; ++i) {
      if (mask[i]) result[i] = found[k++];
    }
  }
};

bool within_a_functional_transform() {
  const auto& functorch = at::functorch::functorchTLSAccessor();
  if (functorch == nullptr) return false;
  try {
    functorch->checkSupportsCppAutogradFunction();
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

Norm group_norm(c10::DispatchKeySet keys, const Tensor& x, const std::optional<Tensor>& weight,
                const std::optional<Tensor>& bias, int64_t n, int64_t c, int64_t hxw, int64_t groups, double eps) {
  const Tensor w = weight.value_or(Tensor()), b = bias.value_or(Tensor());
  const auto any = [&](auto f) { return f(x) || (w.defined() && f(w)) || (b.defined() && f(b)); };
  if (x.suggest_memory_format() == at::MemoryFormat::Contiguous || !at::GradMode::is_enabled() ||
      !any([](const Tensor& t) { return t.requires_grad(); }) ||
      any([](const Tensor& t) { return t._fw_grad(0).defined(); }) || within_a_functional_transform()) {
    return pytorchs_own(keys, x, weight, bias, {n, c, hxw, groups}, eps);
  }
  const variable_list made = GroupNorm::apply(x, optional(w), optional(b), n, c, hxw, groups, eps);
  return {made[0], made[1], made[2]};
}

}  // namespace

void register_autograd_formulas() {
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  autograd->impl("native_group_norm", TORCH_FN(group_norm));
}

}  // namespace kineto_spyre::device
