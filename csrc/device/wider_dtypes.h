// Ops that accelerators have for a dtype and the CPU lacks: they are computed in a wider one.
//
//   float16, bfloat16, complex32    in float32 or complex64, if the CPU's kernel says that it does not know the dtype;
//                                   this is how accelerators compute them: wide within, rounded at the end
//   histc of integers               in float64, in which every count and every bin of a 53-bit integer is exact
//   abs and trace of bool           in uint8 and int64
//
// in: the arguments on the stack, which are CPU tensors (cpu_call.h). out: the results on the stack, and what the
// kernel wrote, in the dtype that was asked for. Where the CPU has the dtype nothing changes. Matrix factorisations
// stay refused, because CUDA refuses them as well.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include "device/op_plan.h"

namespace kineto_spyre::device {

// Calls `kernel`, which takes its arguments from the stack and leaves its results there; again if it was refused for
// its dtype. `arguments` are the tensors among the arguments. Errors: what `kernel` throws.
void with_dtypes_of_the_cpu(const OpPlan& plan, c10::ArrayRef<at::Tensor> arguments, torch::jit::Stack& stack,
                            c10::function_ref<void()> kernel);

}  // namespace kineto_spyre::device
