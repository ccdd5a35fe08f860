#include "device/wider_dtypes.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/alias_on_device.h"

namespace kineto_spyre::device {
namespace {

using c10::IValue;
using c10::ScalarType;
using torch::jit::Stack;

struct Wider {
  ScalarType narrow, wide;
  bool results_stay;  // they are wide on accelerators as well
};

// For dtypes that the CPU's kernel refuses, whatever the op.
std::optional<ScalarType> wider_float(ScalarType narrow) {
  switch (narrow) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return ScalarType::Float;
    case ScalarType::ComplexHalf:
      return ScalarType::ComplexFloat;
    default:
      return std::nullopt;
  }
}

// For ops of which the CPU is known to lack a dtype that is no floating-point one.
std::optional<Wider> known_gap(std::string_view op, ScalarType narrow) {
  if (op == "aten::histc" && c10::isIntegralType(narrow, /*includeBool=*/false)) {
    return Wider{narrow, ScalarType::Double, false};
  }
  if (narrow != ScalarType::Bool) return std::nullopt;
  if (op == "aten::abs") return Wider{narrow, ScalarType::Byte, false};
  if (op == "aten::trace") return Wider{narrow, ScalarType::Long, true};
  return std::nullopt;
}

bool names(const c10::Error& error, ScalarType dtype) {
  const std::string refused = std::string("not implemented for '") + c10::toString(dtype) + "'";
  return std::string_view(error.what_without_backtrace()).find(refused) != std::string_view::npos;
}

// An argument that the kernel may write, and what it gets in its place.
struct Replaced {
  at::Tensor narrow, wide;
};

void run_wider(const OpPlan& plan, const Wider& w, Stack& stack, c10::function_ref<void()> kernel) {
  std::vector<Replaced> written;
  IValue* arguments = stack.data() + (stack.size() - plan.argument_count);
  for (const PlannedArgument& a : plan.arguments) {
    if (a.kind != ArgumentKind::kTensor && a.kind != ArgumentKind::kTensorList) continue;
    map_tensors(arguments[a.index], [&](const at::Tensor& t) {
      if (!t.defined() || t.scalar_type() != w.narrow) return t;
      at::Tensor wide = t.to(w.wide);
      if (a.written) written.push_back({t, wide});
      return wide;
    });
  }
  kernel();
  for (const Replaced& r : written) {
    if (r.narrow.sizes() != r.wide.sizes()) r.narrow.resize_(r.wide.sizes());
    r.narrow.copy_(r.wide);
  }
  if (w.results_stay) return;
  for (size_t i = stack.size() - plan.returns.size(); i < stack.size(); ++i) {
    map_tensors(stack[i], [&](const at::Tensor& t) {
      if (!t.defined()) return t;
      if (t.scalar_type() == w.wide) return t.to(w.narrow);
      // An angle, or another real result of complex numbers.
      const bool part = c10::isComplexType(w.wide) && t.scalar_type() == c10::toRealValueType(w.wide);
      return part ? t.to(c10::toRealValueType(w.narrow)) : t;
    });
  }
}

}  // namespace

void with_dtypes_of_the_cpu(const OpPlan& plan, c10::ArrayRef<at::Tensor> arguments, Stack& stack,
                            c10::function_ref<void()> kernel) {
  std::optional<ScalarType> narrow, wide;
  for (const at::Tensor& t : arguments) {
    if (const auto gap = known_gap(plan.name.name, t.scalar_type())) return run_wider(plan, *gap, stack, kernel);
    if (narrow) continue;
    wide = wider_float(t.scalar_type());
    if (wide) narrow = t.scalar_type();
  }
  if (!narrow || plan.arithmetic == Arithmetic::kFactorisation) [[likely]]
    return kernel();

  // The kernel may take its arguments from the stack and then throw: what it was given is kept for a second time.
  const size_t base = stack.size() - plan.argument_count;
  const std::vector<IValue> given(stack.begin() + static_cast<ptrdiff_t>(base), stack.end());
  try {
    return kernel();
  } catch (const c10::NotImplementedError& refused) {
    if (!names(refused, *narrow)) throw;
  }
  stack.resize(base);
  stack.insert(stack.end(), given.begin(), given.end());
  run_wider(plan, {*narrow, *wide, false}, stack, kernel);
}

}  // namespace kineto_spyre::device
