// What the schema of an op says, found out once, when its kernel is registered.
//
//   in        an operator of the dispatcher (its schema, its tags, its name)
//   out       OpPlan: which arguments must be replaced before the CPU's kernel may see them, what each result is
//             (an argument handed back, a view, or new), and what the op leaves on the device's timeline
//   owner     the registered kernel (cpu_fallback.h), for the life of the process; it never changes after that, so any
//             thread may read it
//
// Nothing here looks at a tensor: what depends on one call is in cpu_call.h.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>

#include "device/cost.h"

namespace kineto_spyre::device {

enum class TimelineEffect : uint8_t {
  kNothing,   // views and metadata
  kKernel,    // one kernel
  kCopy,      // a kernel within a device, else a memcpy
  kReadBack,  // its value is read by the host: a memcpy DtoH
  kFill,      // a memset if the tensor is dense, else a kernel
};

enum class ArgumentKind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kDevice, kGenerator, kStorage };

// An argument that the CPU's kernel must not see as it was given.
struct PlannedArgument {
  uint16_t index;
  ArgumentKind kind;
  bool written;
};

struct OpPlan {
  // Of `returns`, where it is no argument's index.
  static constexpr int16_t kNew = -1;
  static constexpr int16_t kView = -2;

  explicit OpPlan(const c10::OperatorHandle& op);

  const c10::OperatorName& name;
  KernelNames kernels;
  uint16_t argument_count = 0;
  c10::SmallVector<PlannedArgument, 8> arguments;
  c10::SmallVector<int16_t, 4> returns;  // the index of the argument that is handed back, kNew or kView
  TimelineEffect effect = TimelineEffect::kKernel;
  Arithmetic arithmetic = Arithmetic::kElementwise;
  int16_t transposed = -1;  // index of a convolution's flag of that name, -1 if it has none
  bool waits = false;       // the host needs the result: its value, or the shape that follows from the values
  bool any_device = false;  // takes CPU tensors beside the device's
};

}  // namespace kineto_spyre::device
