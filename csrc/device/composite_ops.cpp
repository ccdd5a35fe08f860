#include "device/composite_ops.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/alias_on_device.h"
#include "device/allocator.h"
#include "device/hooks.h"
#include "device/launch.h"

namespace at::autocast {  // of ATen/autocast_mode.h, which includes all of ATen
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API void set_autocast_enabled(at::DeviceType device_type, bool enabled);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API void set_autocast_dtype(at::DeviceType device_type, at::ScalarType dtype);
}  // namespace at::autocast

namespace kineto_spyre::device {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::IValue;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Within it the CPU's default generator draws what the device's would: dropout between layers takes no generator.
class DeviceRandom {
 public:
  explicit DeviceRandom(c10::DeviceIndex device)
      : host_(at::detail::getDefaultCPUGenerator()), device_(cpu_generator(IValue(), device)) {
    swap();
  }
  ~DeviceRandom() { swap(); }
  DeviceRandom(const DeviceRandom&) = delete;
  DeviceRandom& operator=(const DeviceRandom&) = delete;

 private:
  void swap() {
    const std::scoped_lock lock(host_.mutex(), device_.mutex());
    const Tensor state = host_.get_state();
    host_.set_state(device_.get_state());
    device_.set_state(state);
  }
  at::Generator host_, device_;
};

// Within it the CPU casts as torch.autocast of the device says.
class DeviceAutocast {
 public:
  DeviceAutocast() : on_(at::autocast::is_autocast_enabled(kSpyre)) {
    if (!on_) return;
    was_on_ = at::autocast::is_autocast_enabled(c10::kCPU);
    dtype_ = at::autocast::get_autocast_dtype(c10::kCPU);
    at::autocast::set_autocast_enabled(c10::kCPU, true);
    at::autocast::set_autocast_dtype(c10::kCPU, at::autocast::get_autocast_dtype(kSpyre));
  }
  ~DeviceAutocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(c10::kCPU, was_on_);
    at::autocast::set_autocast_dtype(c10::kCPU, dtype_);
  }
  DeviceAutocast(const DeviceAutocast&) = delete;
  DeviceAutocast& operator=(const DeviceAutocast&) = delete;

 private:
  bool on_, was_on_ = false;
  at::ScalarType dtype_ = at::kFloat;
};

// Every step multiplies what comes in by every weight: (steps * batch) times the elements of the matrices, twice.
Figures recurrent_figures(const variable_list& inputs, const variable_list& outputs, double times) {
  Figures f = figures_of(Arithmetic::kElementwise, false, inputs, outputs);
  double weights = 0;
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].dim() == 2) weights += static_cast<double>(inputs[i].numel());
  }
  const Tensor& x = inputs[0];
  const double rows = x.dim() > 0 && x.sizes().back() > 0 ? static_cast<double>(x.numel()) / x.sizes().back() : 0.0;
  f.flops = 2 * times * rows * weights;
  return f;
}

// What a backward needs: the CPU's graph from `inputs` to `outputs`.
struct Graph : torch::CustomClassHolder {
  variable_list inputs, outputs;
  c10::OperatorName op{"", ""};
};

struct Job {
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;  // the arguments, then the results
  c10::DeviceIndex device;
  bool differentiable;
};

class CompositeOp : public torch::autograd::Function<CompositeOp> {
 public:
  static variable_list forward(AutogradContext* context, Job* job, at::TensorList given) {
    const c10::Device device(kSpyre, job->device);
    const variable_list inputs(given.begin(), given.end());
    auto graph = c10::make_intrusive<Graph>();
    graph->op = job->op.operator_name();
    for (IValue& v : job->stack) {
      map_tensors(v, [&](const Tensor& t) {
        Tensor host = alias_on_device(c10::kCPU, t);
        if (t.defined() && t.is_floating_point()) host.set_requires_grad(t.requires_grad());
        graph->inputs.push_back(host);
        return host;
      });
    }
    const int64_t begin = stopwatch();
    {
      const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
      const at::AutoGradMode record(job->differentiable);
      const KernelScope scope(job->device);
      const DeviceRandom random(job->device);
      const DeviceAutocast autocast;
      job->op.callBoxed(&job->stack);
    }
    const int64_t measured = elapsed_since(begin);
    variable_list outputs;
    for (IValue& v : job->stack) {
      map_tensors(v, [&](const Tensor& t) {
        graph->outputs.push_back(t);
        outputs.push_back(alias_on_device(device, t.detach()));
        return outputs.back();
      });
    }
    launch(job->device, KernelNames(graph->op), recurrent_figures(inputs, outputs, 1), measured, inputs, outputs);
    if (job->differentiable) context->saved_data["graph"] = IValue::make_capsule(std::move(graph));
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["graph"].toCapsule();
    auto* graph = static_cast<Graph*>(capsule.get());
    variable_list outputs, weights, inputs, given;
    c10::Device device(kSpyre, -1);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined() || !graph->outputs[i].requires_grad()) continue;
      device = gradients[i].device();
      given.push_back(gradients[i]);
      outputs.push_back(graph->outputs[i]);
      weights.push_back(alias_on_device(c10::kCPU, gradients[i].contiguous()));
    }
    for (const Tensor& t : graph->inputs) {
      if (t.defined() && t.requires_grad()) inputs.push_back(t);
    }
    variable_list result(1 + graph->inputs.size());  // the first is for Job*
    if (outputs.empty() || inputs.empty()) return result;
    variable_list found;
    const int64_t begin = stopwatch();
    {
      const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
      const KernelScope scope(device.index());
      found = torch::autograd::grad(outputs, inputs, weights, /*retain_graph=*/true, /*create_graph=*/false,
                                    /*allow_unused=*/true);
    }
    const int64_t measured = elapsed_since(begin);
    variable_list written;
    for (size_t i = 0, k = 0; i < graph->inputs.size(); ++i) {
      if (!graph->inputs[i].defined() || !graph->inputs[i].requires_grad()) continue;
      result[1 + i] = alias_on_device(device, found[k++]);
      if (result[1 + i].defined()) written.push_back(result[1 + i]);
    }
    const c10::OperatorName name(graph->op.name + "_backward", graph->op.overload_name);
    launch(device.index(), KernelNames(name), recurrent_figures(graph->inputs, written, 2), measured, given, written);
    return result;
  }
};

class CompositeKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    torch::jit::Stack own(std::make_move_iterator(stack->end() - static_cast<ptrdiff_t>(count)),
                          std::make_move_iterator(stack->end()));
    stack->erase(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
    variable_list inputs;
    c10::DeviceIndex device = -1;
    bool differentiable = false;
    for (IValue& v : own) {
      map_tensors(v, [&](const Tensor& t) {
        inputs.push_back(t);
        if (t.defined() && t.is_privateuseone()) device = t.device().index();
        if (t.defined() && t.requires_grad()) differentiable = true;
        return t;
      });
    }
    Job job{op, own, device, differentiable && at::GradMode::is_enabled()};
    variable_list outputs = CompositeOp::apply(&job, at::TensorList(inputs));
    size_t next = 0;
    for (IValue& v : own) map_tensors(v, [&](const Tensor&) { return outputs[next++]; });
    for (IValue& v : own) stack->push_back(std::move(v));
  }
};

}  // namespace

void register_composite_ops() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* kept = new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  for (const char* name :
       {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}) {
    for (const char* overload : {"input", "data", ""}) {
      const auto op = dispatcher.findSchema({std::string("aten::") + name, overload});
      if (!op) continue;
      for (const DispatchKey key : {DispatchKey::PrivateUse1, DispatchKey::AutogradPrivateUse1}) {
        kept->push_back(dispatcher.registerImpl(
            op->operator_name(), key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<CompositeKernel>()),
            std::nullopt, nullptr, "kineto_spyre: the CPU's composite as one op"));
      }
    }
  }
}

}  // namespace kineto_spyre::device
