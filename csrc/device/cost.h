// What the kernel of an op is called, and the figures from which the runtime's cost model knows how long it lasts.
//
// Figures: bytes are those of the tensors read and written (elements times their size, not the storage behind a view);
// floating-point operations are counted for matrix products, convolutions and attention as usual (a multiply-add is
// two), and one an element for everything else. The cost model takes the longer of arithmetic and memory traffic, so
// for an op that is not in the first group its bytes decide.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/operator_name.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>

#include "spyre_emulator/runtime.h"

namespace kineto_spyre::device {

enum class Arithmetic : uint8_t {
  kElementwise,
  kProduct,      // mm, bmm, mv, dot: (a, b)
  kAddProduct,   // addmm, baddbmm, addmv: (c, a, b)
  kAddBatchSum,  // addbmm: (c, a, b), summed over the batch
  kConvolution,
  kConvolutionBackward,
  kAttention,
  kAttentionBackward,
  kFactorisation,  // of a matrix: cubic in its size
};
Arithmetic arithmetic_of(const c10::OperatorName& name);

// Of the elements, not of the storage behind them. 0 for sparse tensors, whose members are not looked at.
uint64_t bytes_of(const at::Tensor& t);

struct Figures {
  double flops = 0;
  uint64_t read = 0;
  uint64_t written = 0;
  spyreDtype_t dtype = SPYRE_DTYPE_OTHER;
};
// `inputs` in the order of the op's arguments (undefined ones left out), `written` what it returned or changed.
Figures figures_of(Arithmetic kind, bool transposed, c10::ArrayRef<at::Tensor> inputs,
                   c10::ArrayRef<at::Tensor> written);

struct KernelName {
  char text[128];  // NUL-terminated
};

// "spyre_kernel_v1_<summary>_<16 lowercase base32 characters>#0". The characters are a hash of the op, and of the
// shapes, strides and dtypes of what it reads and writes: the same for the same work in every process, and other for
// other work. What the names of one op have in common is made once.
class KernelNames {
 public:
  explicit KernelNames(const c10::OperatorName& op);
  KernelName of(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written) const;

 private:
  std::string prefix_;
  uint64_t hash_;
};

}  // namespace kineto_spyre::device
