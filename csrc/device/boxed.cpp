#include "device/boxed.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/allocator.h"
#include "device/cost.h"
#include "device/hooks.h"
#include "device/launch.h"
#include "device/runtime.h"
#include "device/sparse.h"

namespace kineto_spyre::device {
namespace {

using c10::IValue;
using c10::StorageImpl;
using c10::TensorImpl;
using Stack = torch::jit::Stack;

// What an op leaves on the timeline.
enum class Trail : uint8_t {
  kNothing,  // views and metadata
  kKernel,
  kCopy,    // a kernel within a device, else a memcpy
  kScalar,  // its value is read back: a memcpy DtoH
  kFill,    // a memset if the tensor is dense, else a kernel
};

enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kDevice, kGenerator, kStorage };

struct Argument {
  uint16_t index;
  Kind kind;
  bool written;
};

constexpr int16_t kFresh = -1;
constexpr int16_t kView = -2;

// What the schema of an op says, found out once.
struct Plan {
  const c10::OperatorName& name;
  KernelNames kernels;
  uint16_t arguments = 0;
  c10::SmallVector<Argument, 8> interesting;
  c10::SmallVector<int16_t, 4> returns;  // an argument's index (it returns what it was given), kFresh or kView
  Trail trail = Trail::kKernel;
  Arithmetic arithmetic = Arithmetic::kElementwise;
  int16_t transposed = -1;  // where a convolution keeps that flag
  bool waits = false;       // the host needs the result: its value, or the shape that follows from the values
  bool any_device = false;  // takes CPU tensors beside the device's

  explicit Plan(const c10::OperatorHandle& op);
};

bool is_list_of(const c10::TypePtr& type, bool* optional_elements) {
  const auto list = type->cast<c10::ListType>();
  if (!list) return false;
  const c10::TypePtr element = list->getElementType();
  *optional_elements = element->kind() == c10::TypeKind::OptionalType;
  const c10::TypePtr inner = *optional_elements ? element->expectRef<c10::OptionalType>().getElementType() : element;
  return inner->kind() == c10::TypeKind::TensorType;
}

std::optional<Kind> kind_of(c10::TypePtr type) {
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  bool optional_elements = false;
  if (is_list_of(type, &optional_elements)) {
    return optional_elements ? Kind::kOptionalTensorList : Kind::kTensorList;
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::kTensor;
    case c10::TypeKind::DeviceObjType:
      return Kind::kDevice;
    case c10::TypeKind::GeneratorType:
      return Kind::kGenerator;
    case c10::TypeKind::StorageType:
      return Kind::kStorage;
    default:
      return std::nullopt;
  }
}

bool one_of(std::string_view s, std::initializer_list<std::string_view> list) {
  for (const std::string_view item : list) {
    if (s == item) return true;
  }
  return false;
}

Plan::Plan(const c10::OperatorHandle& op) : name(op.operator_name()), kernels(name) {
  const c10::FunctionSchema& schema = op.schema();
  arguments = static_cast<uint16_t>(schema.arguments().size());
  for (uint16_t i = 0; i < arguments; ++i) {
    const c10::Argument& a = schema.arguments()[i];
    const bool written = a.alias_info() != nullptr && a.alias_info()->isWrite();
    // real_type(): type() calls a Layout or a ScalarType an int, and a Device a Device.
    if (const auto kind = kind_of(a.real_type())) interesting.push_back({i, *kind, written});
    if (a.name() == "transposed") transposed = static_cast<int16_t>(i);
  }
  bool views = false;
  for (const c10::Argument& r : schema.returns()) {
    int16_t from = kFresh;
    if (r.alias_info() != nullptr) {
      from = kView;
      if (r.alias_info()->isWrite()) {
        for (uint16_t i = 0; i < arguments; ++i) {
          const c10::AliasInfo* a = schema.arguments()[i].alias_info();
          if (a != nullptr && a->isWrite() && a->beforeSets() == r.alias_info()->beforeSets()) {
            from = static_cast<int16_t>(i);
          }
        }
      } else {
        views = true;
      }
    }
    returns.push_back(from);
  }

  const std::string& n = name.name;
  const bool copies = n == "aten::copy_";
  if (views || one_of(n, {"aten::resize_", "aten::empty_like", "aten::set_", "aten::is_set_to",
                          "aten::_fused_sdp_choice", "aten::_efficientzerotensor", "aten::_empty_affine_quantized",
                          "aten::_empty_per_channel_affine_quantized", "aten::_make_dep_token",
                          "aten::_nested_compute_contiguous_strides_offsets"})) {
    trail = Trail::kNothing;
  } else if (copies) {
    trail = Trail::kCopy;
  } else if (n == "aten::_local_scalar_dense") {
    trail = Trail::kScalar;
  } else if (n == "aten::zero_") {
    trail = Trail::kFill;
  }
  arithmetic = arithmetic_of(name);
  waits = op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  any_device = copies || one_of(n, {"aten::index", "aten::_index_put_impl_", "aten::_pack_padded_sequence",
                                    "aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::set_", "aten::is_set_to",
                                    "aten::_convert_weight_to_int4pack_for_cpu"});
}

std::atomic<uint64_t> moved_bytes{0};  // counted for tests; no order with anything

c10::DataPtr moved_to(c10::DeviceIndex device, const void* data, size_t bytes) {
  c10::DataPtr moved = allocate_on(device, bytes);
  std::memcpy(moved.get(), data, bytes);
  moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return moved;
}

void release_storage(void* context) { c10::raw::intrusive_ptr::decref(static_cast<StorageImpl*>(context)); }

bool is_dense_strided(const TensorImpl* impl) {
  return impl->layout() == c10::kStrided && impl->has_storage() && !impl->key_set().has(c10::DispatchKey::Quantized);
}

// One call: what was given, what the CPU kernel sees instead, and the way back.
class Call {
 public:
  Call(const Plan& plan, IValue* arguments) : plan_(plan) {
    for (const Argument& a : plan.interesting) replace(a, arguments[a.index]);
    if (device_ < 0) {  // a factory: the device is an argument, and asked of the thread if it has no index
      device_ = requested_ ? resolve(requested_->index()) : current_device();
    }
    if (generator_ != nullptr) *generator_ = IValue(cpu_generator(*generator_, device_));
  }

  c10::DeviceIndex device() const { return device_; }
  // Where the kernel's results are wanted: the device, or the host (-1) if the op was asked for a CPU tensor.
  c10::DeviceIndex results_on() const {
    return host_written_ || (requested_ && requested_->type() != kSpyre) ? -1 : device_;
  }
  // The device tensors that were given, in the order of the arguments, list elements included.
  c10::ArrayRef<at::Tensor> inputs() const { return originals_; }
  const c10::SmallVector<at::Tensor, 4>& written() const { return written_; }
  const at::Tensor& given(uint16_t argument) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i] == argument) return originals_[i];
    }
    static const at::Tensor none;
    return none;
  }

  // Turns the results on the stack into the device's.
  void results(Stack& stack) {
    const size_t base = stack.size() - plan_.returns.size();
    hand_back_storages();
    for (size_t i = 0; i < originals_.size(); ++i) {
      if (is_written_[i]) hand_back(originals_[i], aliases_[i]);
    }
    for (size_t i = 0; i < plan_.returns.size(); ++i) {
      IValue& v = stack[base + i];
      const int16_t from = plan_.returns[i];
      if (v.isTensor()) {
        if (from >= 0) {  // what it was given: the device's tensor, or a CPU tensor that stayed on the stack
          if (const at::Tensor& t = given(static_cast<uint16_t>(from)); t.defined()) v = t;
          continue;
        }
        at::Tensor t = adopt(std::move(v).toTensor(), from == kView);
        if (t.defined()) written_.push_back(t);
        v = std::move(t);
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list = v.toTensorList();
        c10::List<at::Tensor> made;
        made.reserve(list.size());
        for (size_t k = 0; k < list.size(); ++k) {
          at::Tensor t = list.extract(k);
          made.push_back(adopt(std::move(t), from == kView));
          written_.push_back(made.get(k));
        }
        v = std::move(made);
      }
    }
    for (size_t i = 0; i < originals_.size(); ++i) {
      if (is_written_[i]) written_.push_back(originals_[i]);
    }
  }

 private:
  struct Seat {
    StorageImpl* device;
    c10::intrusive_ptr<StorageImpl> cpu;
  };

  void replace(const Argument& a, IValue& v) {
    switch (a.kind) {
      case Kind::kTensor:
        if (v.isTensor()) {
          TensorImpl* impl = v.unsafeToTensorImpl();
          if (impl->is_privateuseone()) [[likely]] {
            v = alias(a, std::move(v).toTensor());
          } else {
            foreign(a, impl);
          }
        }
        break;
      case Kind::kTensorList:
        if (v.isTensorList()) {
          c10::List<at::Tensor> list = v.toTensorList();
          c10::List<at::Tensor> made;
          made.reserve(list.size());
          for (size_t i = 0; i < list.size(); ++i) made.push_back(element(a, list.get(i)));
          v = std::move(made);
        }
        break;
      case Kind::kOptionalTensorList:
        if (v.isList()) {
          c10::List<std::optional<at::Tensor>> made;
          for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector()) {
            made.push_back(t && t->defined() ? std::optional(element(a, *t)) : t);
          }
          v = std::move(made);
        }
        break;
      case Kind::kDevice:
        if (v.isDevice()) {
          requested_ = v.toDevice();
          v = c10::Device(c10::kCPU);
        }
        break;
      case Kind::kGenerator:
        generator_ = &v;
        break;
      case Kind::kStorage:
        if (v.isStorage()) {
          const at::Storage storage = v.toStorage();
          if (storage.device_type() == kSpyre) v = at::Storage(seat(storage.unsafeGetStorageImpl()));
        }
        break;
    }
  }

  at::Tensor element(const Argument& a, at::Tensor t) {
    if (!t.defined()) return t;
    if (t.device().type() == kSpyre) return alias(a, std::move(t));
    foreign(a, t.unsafeGetTensorImpl());
    return t;
  }

  // A tensor that is not the device's: a CPU scalar may take part in anything, more than that only in few ops.
  void foreign(const Argument& a, const TensorImpl* impl) {
    if (impl == c10::UndefinedTensorImpl::singleton()) return;
    if (a.written) host_written_ = true;
    if (plan_.any_device) return;
    if (impl->is_cpu() && impl->dim() == 0) return;
    if (foreign_ == nullptr) {
      foreign_ = impl;
      foreign_argument_ = a.index;
    }
    check_same_device();
  }
  void check_same_device() const {
    if (foreign_ == nullptr || device_ < 0) return;
    std::string op = plan_.name.name;
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, spyre:", int{device_},
                " and ", foreign_->device(), "! (when checking argument ", foreign_argument_ + 1, " of ", op,
                ") Move it with .to(\"spyre\").");
  }

  at::Tensor alias(const Argument& a, at::Tensor t) {
    TensorImpl* impl = t.unsafeGetTensorImpl();
    const c10::DeviceIndex index = impl->device().index();
    if (device_ < 0) {
      device_ = index;
      check_same_device();
    } else if (index != device_ && !plan_.any_device) {
      TORCH_CHECK(false,
                  "Expected all tensors to be on the same device, but found at least two devices, spyre:", int{device_},
                  " and spyre:", int{index}, "! (when checking argument ", a.index + 1, " of ", plan_.name.name, ")");
    }
    at::Tensor cpu = seen_by_cpu(t);
    // Some kernels choose their way by it: convolutions, sparse products.
    if (impl->requires_grad()) cpu.unsafeGetTensorImpl()->set_requires_grad(true);
    originals_.push_back(std::move(t));
    aliases_.push_back(cpu);
    arguments_.push_back(a.index);
    is_written_.push_back(a.written);
    return cpu;
  }

  at::Tensor seen_by_cpu(const at::Tensor& t) {
    const TensorImpl* impl = t.unsafeGetTensorImpl();
    if (is_dense_strided(impl)) [[likely]] {
      at::Tensor cpu =
          at::detail::make_tensor<TensorImpl>(at::Storage(seat(impl->unsafe_storage().unsafeGetStorageImpl())),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
      TensorImpl* made = cpu.unsafeGetTensorImpl();
      made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
      if (impl->is_conj()) made->_set_conj(true);
      if (impl->is_neg()) made->_set_neg(true);
      if (impl->is_wrapped_number()) made->set_wrapped_number(true);
      return cpu;
    }
    if (is_sparse(impl)) {
      return sparse_on(c10::Device(c10::kCPU), t, [this](const at::Tensor& member) { return seen_by_cpu(member); });
    }
    auto copy = impl->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
    TORCH_CHECK_NOT_IMPLEMENTED(copy->has_storage(), "spyre has no kernel for ", plan_.name,
                                " of a tensor with layout ", impl->layout(), ". Call it on the CPU.");
    copy->_change_backend_component_keys(c10::Device(c10::kCPU));
    copy->set_storage_keep_dtype(at::Storage(seat(impl->unsafe_storage().unsafeGetStorageImpl())));
    return at::Tensor(std::move(copy));
  }

  // The CPU storage over the bytes of a device's, one for each.
  c10::intrusive_ptr<StorageImpl> seat(StorageImpl* device) {
    constexpr size_t kFew = 16;
    if (seats_.size() <= kFew) [[likely]] {
      for (const Seat& s : seats_) {
        if (s.device == device) return s.cpu;
      }
    } else {
      if (seat_of_.empty()) {
        for (size_t i = 0; i < seats_.size(); ++i) seat_of_.emplace(seats_[i].device, i);
      }
      if (const auto it = seat_of_.find(device); it != seat_of_.end()) return seats_[it->second].cpu;
      seat_of_.emplace(device, seats_.size());
    }
    c10::raw::intrusive_ptr::incref(device);  // released by release_storage()
    c10::DataPtr data(device->_mutable_data_ptr_no_checks().get(), device, &release_storage, c10::Device(c10::kCPU));
    auto cpu = c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), device->sym_nbytes(), std::move(data),
                                                cpu_allocator(), device->resizable());
    seats_.push_back({device, cpu});
    return cpu;
  }

  // Storages that the kernel resized: the device's takes the new memory.
  void hand_back_storages() {
    for (const Seat& s : seats_) {
      c10::DataPtr& now = s.cpu->_mutable_data_ptr_no_checks();
      if (now.get() == s.device->_mutable_data_ptr_no_checks().get() && s.cpu->nbytes() == s.device->nbytes()) continue;
      const size_t bytes = s.cpu->nbytes();
      if (now.get_deleter() != &release_storage) {
        c10::DataPtr taken = std::move(now);
        c10::raw::intrusive_ptr::incref(s.device);
        now = c10::DataPtr(taken.get(), s.device, &release_storage, c10::Device(c10::kCPU));
        own(taken, bytes);
        s.device->set_data_ptr_noswap(std::move(taken));
      }
      s.device->set_nbytes(bytes);
    }
  }

  // Makes `data` the device's: by name if the memory is, else by moving the bytes (a kernel that does not allocate from
  // the CPU allocator, or not on its calling thread).
  void own(c10::DataPtr& data, size_t bytes) const {
    const c10::Device on(kSpyre, device_);
    if (is_memory_of(device_, data) || data.get() == nullptr) {
      data.unsafe_set_device(on);
    } else {
      data = moved_to(device_, data.get(), bytes);
    }
  }

  // Shape and memory of a written argument.
  void hand_back(const at::Tensor& original, const at::Tensor& cpu) {
    TensorImpl* to = original.unsafeGetTensorImpl();
    TensorImpl* from = cpu.unsafeGetTensorImpl();
    if (is_sparse(to)) {
      sparse_assign(original, cpu, [this](const at::Tensor& member) { return adopt(member, /*view=*/false); });
      return;
    }
    if (!is_dense_strided(to)) return;
    const at::Storage& storage = from->unsafe_storage();
    StorageImpl* device_storage = device_storage_of(storage.unsafeGetStorageImpl());
    if (device_storage == nullptr) {  // re-seated on a storage of the kernel's making
      StorageImpl* s = storage.unsafeGetStorageImpl();
      claim(s);
      to->set_storage_keep_dtype(storage);
    } else if (device_storage != to->unsafe_storage().unsafeGetStorageImpl()) {  // re-seated on another argument's
      to->set_storage_keep_dtype(at::Storage(c10::intrusive_ptr<StorageImpl>::reclaim_copy(device_storage)));
    }
    if (to->sizes() != from->sizes() || to->strides() != from->strides() ||
        to->storage_offset() != from->storage_offset()) {
      to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
    }
  }

  StorageImpl* device_storage_of(const StorageImpl* cpu) const {
    for (const Seat& s : seats_) {
      if (s.cpu.get() == cpu) return s.device;
    }
    return nullptr;
  }

  // A storage that the kernel made, now the device's.
  void claim(StorageImpl* s) const {
    c10::DataPtr& data = s->_mutable_data_ptr_no_checks();
    if (data.device().type() == kSpyre) return;  // two results share it
    own(data, s->nbytes());
    s->set_allocator(allocator());
  }

  at::Tensor adopt(at::Tensor t, bool view) {
    if (!t.defined() || t.device().type() != c10::kCPU || results_on() < 0) return t;
    if (t.use_count() > 1) {
      for (size_t i = 0; i < aliases_.size(); ++i) {
        if (!aliases_[i].is_same(t)) continue;
        if (!view) return originals_[i];
        break;
      }
    }
    if (is_sparse(t.unsafeGetTensorImpl())) {
      return sparse_on(c10::Device(kSpyre, device_), t,
                       [this](const at::Tensor& member) { return adopt(member, /*view=*/false); });
    }
    if (t.use_count() > 1) {
      // Someone keeps it, so it can't change under them.
      t = at::Tensor(t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
    }
    TensorImpl* impl = t.unsafeGetTensorImpl();
    TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), "spyre can't hold the result of ", plan_.name,
                                ", whose layout is ", impl->layout(), ". Call it on the CPU.");
    StorageImpl* s = impl->unsafe_storage().unsafeGetStorageImpl();
    const bool shared = impl->unsafe_storage().use_count() > 1;
    StorageImpl* device_storage = shared ? device_storage_of(s) : nullptr;
    impl->_change_backend_component_keys(c10::Device(kSpyre, device_));
    if (device_storage != nullptr) {
      impl->set_storage_keep_dtype(at::Storage(c10::intrusive_ptr<StorageImpl>::reclaim_copy(device_storage)));
    } else if (shared && s->_mutable_data_ptr_no_checks().device().type() != kSpyre &&
               !is_memory_of(device_, s->_mutable_data_ptr_no_checks())) {
      // A view of a CPU argument: its bytes stay the CPU's, the result gets its own.
      impl->set_storage_keep_dtype(at::Storage(c10::make_intrusive<StorageImpl>(
          StorageImpl::use_byte_size_t(), s->nbytes(), moved_to(device_, s->data(), s->nbytes()), allocator(), true)));
    } else {
      claim(s);
      impl->set_storage_keep_dtype(at::Storage(impl->unsafe_storage()));  // takes over the storage's device
    }
    return t;
  }

  const Plan& plan_;
  c10::DeviceIndex device_ = -1;
  std::optional<c10::Device> requested_;
  bool host_written_ = false;  // writes to a CPU tensor
  IValue* generator_ = nullptr;
  const TensorImpl* foreign_ = nullptr;
  uint16_t foreign_argument_ = 0;
  c10::SmallVector<at::Tensor, 4> originals_;
  c10::SmallVector<at::Tensor, 4> aliases_;
  c10::SmallVector<uint16_t, 8> arguments_;
  c10::SmallVector<bool, 8> is_written_;
  c10::SmallVector<Seat, 4> seats_;
  ska::flat_hash_map<StorageImpl*, size_t> seat_of_;
  c10::SmallVector<at::Tensor, 4> written_;
};

// The places on the timeline.
class Timeline {
 public:
  Timeline(const Plan& plan, const Call& call, bool transposed, int64_t measured_ns)
      : plan_(plan), call_(call), transposed_(transposed), measured_ns_(measured_ns) {}

  void kernel() const {
    launch(call_.device(), plan_.kernels, figures_of(plan_.arithmetic, transposed_, call_.inputs(), call_.written()),
           measured_ns_, call_.inputs(), call_.written());
  }

  void copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking) const {
    const bool into = to.device().type() == kSpyre, out_of = from.device().type() == kSpyre;
    const uint64_t bytes = bytes_of(to);
    if (bytes == 0) return;
    if (into && out_of) {
      if (to.device() == from.device()) return kernel();
      return peer_copy(from.device().index(), to.device().index(), bytes);
    }
    const c10::DeviceIndex device = into ? to.device().index() : from.device().index();
    const at::Tensor& host = into ? from : to;
    const bool asynchronous = non_blocking && host.layout() == c10::kStrided && is_pinned(host.const_data_ptr());
    check(spyreMemcpy(device, nullptr, nullptr, bytes, into ? SPYRE_MEMCPY_HTOD : SPYRE_MEMCPY_DTOH,
                      current_handle(device), asynchronous ? SPYRE_EAGER : SPYRE_EAGER | SPYRE_BLOCKING),
          "copying");
  }

  // The host waits for a value of `bytes` bytes.
  void read_back(uint64_t bytes) const {
    check(spyreMemcpy(call_.device(), nullptr, nullptr, bytes, SPYRE_MEMCPY_DTOH, current_handle(call_.device()),
                      SPYRE_EAGER | SPYRE_BLOCKING),
          "reading a value back");
  }

 private:
  // Runs on the source's stream; the destination's waits for it, as later work there reads what it wrote.
  void peer_copy(c10::DeviceIndex from, c10::DeviceIndex to, uint64_t bytes) const {
    spyreEvent_t done = nullptr;
    check(spyreEventCreate(from, 0, &done), "copying between devices");
    const auto destroy = [](spyreEvent_t e) { spyreEventDestroy(e); };
    const std::unique_ptr<spyreEvent_st, decltype(destroy)> owner(done, destroy);
    check(spyreMemcpy(from, nullptr, nullptr, bytes, SPYRE_MEMCPY_PTOP, current_handle(from), SPYRE_EAGER),
          "copying between devices");
    check(spyreEventRecord(done, from, current_handle(from)), "copying between devices");
    check(spyreStreamWaitEvent(to, current_handle(to), done), "copying between devices");
  }

  const Plan& plan_;
  const Call& call_;
  bool transposed_;
  int64_t measured_ns_;
};

class BoxedKernel final : public c10::OperatorKernel {
 public:
  BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey cpu) : plan_(op), cpu_(cpu) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) { run(plan_, cpu_, op, stack); }

  static void run(const Plan& plan, c10::DispatchKey cpu, const c10::OperatorHandle& op, Stack* stack) {
    IValue* arguments = stack->data() + (stack->size() - plan.arguments);
    const bool transposed = plan.transposed >= 0 && arguments[plan.transposed].toBool();
    if (plan.trail == Trail::kFill && fill(plan, stack)) return;

    at::Tensor copy_to, copy_from;
    bool non_blocking = false;
    if (plan.trail == Trail::kCopy) {
      copy_to = arguments[0].toTensor();
      copy_from = arguments[1].toTensor();
      non_blocking = arguments[2].toBool();
    }

    Call call(plan, arguments);
    const int64_t begin = stopwatch();
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      // The guard is not free, and only a profiler's callbacks would see what it hides.
      std::optional<at::RecordFunctionGuard> unseen;
      if (at::hasCallbacks()) unseen.emplace(/*is_enabled=*/false);
      const KernelScope scope(call.results_on());
      c10::Dispatcher::singleton().redispatchBoxed(op, c10::DispatchKeySet(cpu), stack);
    }
    const int64_t measured = elapsed_since(begin);
    call.results(*stack);

    const Timeline timeline(plan, call, transposed, measured);
    switch (plan.trail) {
      case Trail::kNothing:
        break;
      case Trail::kCopy:
        timeline.copy(copy_to, copy_from, non_blocking);
        break;
      case Trail::kScalar:
        timeline.read_back(call.inputs().empty() ? 1 : call.inputs()[0].element_size());
        break;
      case Trail::kFill:
      case Trail::kKernel:
        if (did_work(call)) timeline.kernel();
        if (plan.waits) timeline.read_back(sizeof(int64_t));
        break;
    }
  }

 private:
  // An op whose results are all empty launches nothing.
  static bool did_work(const Call& call) {
    if (call.written().empty()) {
      for (const at::Tensor& t : call.inputs()) {
        if (t.numel() > 0) return true;
      }
      return false;
    }
    for (const at::Tensor& t : call.written()) {
      if (t.numel() > 0) return true;
    }
    return false;
  }

  // zero_ of a dense tensor is the runtime's own fill.
  static bool fill(const Plan&, Stack* stack) {
    const at::Tensor& t = stack->back().toTensor();
    if (t.layout() != c10::kStrided || !t.is_non_overlapping_and_dense() || t.numel() == 0) return false;
    refuse_in_fork();
    const c10::DeviceIndex device = t.device().index();
    void* const data = static_cast<char*>(t.storage().mutable_data()) + t.storage_offset() * t.element_size();
    check(spyreMemset(device, data, 0, bytes_of(t), current_handle(device), SPYRE_EAGER), "zeroing");
    return true;  // the stack holds what was given, which is what it returns
  }

  Plan plan_;
  c10::DispatchKey cpu_;
};

// For ops that were registered after us.
class Fallback final : public c10::OperatorKernel {
 public:
  explicit Fallback(c10::DispatchKey cpu) : cpu_(cpu) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(cpu_), "spyre has no kernel for ",
                                op.operator_name(), ", and neither has the CPU (", cpu_, "), whose kernels it uses.");
    BoxedKernel::run(plan(op), cpu_, op, stack);
  }

 private:
  const Plan& plan(const c10::OperatorHandle& op) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Plan>& p = plans_[op.operator_name()];
    if (!p) p = std::make_unique<Plan>(op);
    return *p;
  }
  c10::DispatchKey cpu_;
  std::mutex mutex_;
  std::unordered_map<c10::OperatorName, std::unique_ptr<Plan>> plans_;
};

// Ops that have a CPU kernel of their own, and yet are not ours to take: the collectives, layouts of the CPU's alone,
// and what native.cpp does.
bool is_exception(const c10::OperatorName& name) {
  const std::string_view n = name.name;
  return n.starts_with("c10d::") || n.starts_with("onednn::") || n.starts_with("mkldnn") ||
         one_of(n, {"aten::to_mkldnn", "aten::_make_dep_token"});
}

void register_for(c10::DispatchKey spyre, c10::DispatchKey cpu, std::vector<c10::OperatorName> extra) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  const char* const who = "kineto_spyre: the CPU's kernel on an alias";
  std::vector<c10::OperatorName> names = dispatcher.getAllOpNamesForDispatchKey(cpu);
  names.insert(names.end(), extra.begin(), extra.end());
  for (const c10::OperatorName& name : names) {
    const auto op = dispatcher.findSchema(name);
    if (!op || is_exception(name) || op->hasKernelForDispatchKey(spyre)) continue;
    kept->push_back(dispatcher.registerImpl(
        name, spyre, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(*op, cpu)), std::nullopt,
        nullptr, who));
  }
  kept->push_back(dispatcher.registerFallback(
      spyre, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Fallback>(cpu)), who));
}

}  // namespace

uint64_t bytes_moved() { return moved_bytes.load(std::memory_order_relaxed); }

void register_boxed_kernels() {
  // Where a composite kernel's choice depends on the device, the CPU's choice is taken as a whole.
  register_for(c10::DispatchKey::PrivateUse1, c10::DispatchKey::CPU,
               {{"aten::convolution", ""}, {"aten::convolution_backward", ""}, {"aten::copy_", ""}});
  register_for(c10::DispatchKey::QuantizedPrivateUse1, c10::DispatchKey::QuantizedCPU, {{"aten::copy_", ""}});
  register_for(c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU, {{"aten::copy_", ""}});
  register_for(c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU, {{"aten::copy_", ""}});
}

}  // namespace kineto_spyre::device
