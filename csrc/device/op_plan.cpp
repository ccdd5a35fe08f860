#include "device/op_plan.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace kineto_spyre::device {
namespace {

bool one_of(std::string_view s, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

bool is_list_of_tensors(const c10::TypePtr& type, bool* optional_elements) {
  const auto list = type->cast<c10::ListType>();
  if (!list) return false;
  const c10::TypePtr element = list->getElementType();
  *optional_elements = element->kind() == c10::TypeKind::OptionalType;
  const c10::TypePtr inner = *optional_elements ? element->expectRef<c10::OptionalType>().getElementType() : element;
  return inner->kind() == c10::TypeKind::TensorType;
}

std::optional<ArgumentKind> kind_of(c10::TypePtr type) {
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  bool optional_elements = false;
  if (is_list_of_tensors(type, &optional_elements)) {
    return optional_elements ? ArgumentKind::kOptionalTensorList : ArgumentKind::kTensorList;
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::kGenerator;
    case c10::TypeKind::StorageType:
      return ArgumentKind::kStorage;
    default:
      return std::nullopt;
  }
}

// What a result of the schema is: see OpPlan::returns.
int16_t origin_of(const c10::Argument& result, const c10::FunctionSchema& schema) {
  const c10::AliasInfo* alias = result.alias_info();
  if (alias == nullptr) return OpPlan::kNew;
  int16_t origin = OpPlan::kView;
  if (!alias->isWrite()) return origin;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* a = schema.arguments()[i].alias_info();
    if (a != nullptr && a->isWrite() && a->beforeSets() == alias->beforeSets()) origin = static_cast<int16_t>(i);
  }
  return origin;
}

TimelineEffect effect_of(std::string_view name, const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  const bool view = std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
    return r.alias_info() != nullptr && !r.alias_info()->isWrite();
  });
  if (view || one_of(name, {"aten::resize_", "aten::empty_like", "aten::set_", "aten::is_set_to",
                            "aten::_fused_sdp_choice", "aten::_efficientzerotensor", "aten::_empty_affine_quantized",
                            "aten::_empty_per_channel_affine_quantized", "aten::_make_dep_token",
                            "aten::_nested_compute_contiguous_strides_offsets"})) {
    return TimelineEffect::kNothing;
  }
  if (name == "aten::copy_") return TimelineEffect::kCopy;
  if (name == "aten::_local_scalar_dense") return TimelineEffect::kReadBack;
  if (name == "aten::zero_") return TimelineEffect::kFill;
  return TimelineEffect::kKernel;
}

}  // namespace

OpPlan::OpPlan(const c10::OperatorHandle& op) : name(op.operator_name()), kernels(name) {
  const c10::FunctionSchema& schema = op.schema();
  argument_count = static_cast<uint16_t>(schema.arguments().size());
  for (uint16_t i = 0; i < argument_count; ++i) {
    const c10::Argument& a = schema.arguments()[i];
    const bool written = a.alias_info() != nullptr && a.alias_info()->isWrite();
    // real_type(): type() calls a Layout or a ScalarType an int, and a Device a Device.
    if (const auto kind = kind_of(a.real_type())) arguments.push_back({i, *kind, written});
    if (a.name() == "transposed") transposed = static_cast<int16_t>(i);
  }
  for (const c10::Argument& result : schema.returns()) returns.push_back(origin_of(result, schema));
  effect = effect_of(name.name, schema);
  arithmetic = arithmetic_of(name);
  waits = op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  any_device = one_of(name.name, {"aten::copy_", "aten::index", "aten::_index_put_impl_", "aten::_pack_padded_sequence",
                                  "aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::set_", "aten::is_set_to",
                                  "aten::_convert_weight_to_int4pack_for_cpu"});
}

}  // namespace kineto_spyre::device
