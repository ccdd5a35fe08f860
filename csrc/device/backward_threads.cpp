#include "device/backward_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <cstdint>

namespace kineto_spyre::device {
namespace {

// Counts of OpenMP's and of MKL's threads (0: this PyTorch has none). What they say is all that is handed over:
// relaxed.
std::atomic<uint64_t> wanted{0};
constinit thread_local uint64_t followed = 0;
constinit thread_local bool calls_backward = false;

// Those that PyTorch itself uses. Looked for in its library, whose dependencies are searched too: another OpenMP
// runtime in the process would not be the one whose count matters.
struct Runtimes {
  void (*set_omp)(int) = nullptr;
  int (*set_mkl)(int) = nullptr;  // of the calling thread
  int (*mkl)() = nullptr;

  Runtimes() {
    Dl_info torch{};
    if (dladdr(reinterpret_cast<void*>(&at::get_num_threads), &torch) == 0) return;
    void* library = dlopen(torch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return;  // kept open: PyTorch is never unloaded
    set_omp = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
    // In lower case they are Fortran's, which take pointers.
    set_mkl = reinterpret_cast<int (*)(int)>(dlsym(library, "MKL_Set_Num_Threads_Local"));
    mkl = reinterpret_cast<int (*)()>(dlsym(library, "MKL_Get_Max_Threads"));
  }
};
const Runtimes& runtimes() {
  static const Runtimes one;
  return one;
}

bool in_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

}  // namespace

void note_backwards_caller() noexcept {
  if (in_backward()) return;  // a reentrant one
  calls_backward = true;
  const auto omp = static_cast<uint32_t>(at::get_num_threads());
  const Runtimes& r = runtimes();
  const auto mkl = static_cast<uint32_t>(r.mkl == nullptr ? 0 : r.mkl());
  wanted.store(uint64_t{omp} << 32 | mkl, std::memory_order_relaxed);
}

void follow_backwards_caller() noexcept {
  const uint64_t counts = wanted.load(std::memory_order_relaxed);
  if (counts == followed) [[likely]]
    return;
  followed = counts;
  if (calls_backward || !in_backward()) return;  // no autograd thread of a device
  at::get_num_threads();                         // PyTorch sets a thread's count at its first use: not after ours
  const Runtimes& r = runtimes();
  if (r.set_omp != nullptr) r.set_omp(static_cast<int>(counts >> 32));
  if (const auto mkl = static_cast<int>(counts & UINT32_MAX); r.set_mkl != nullptr && mkl > 0) r.set_mkl(mkl);
}

}  // namespace kineto_spyre::device
