#include "device/launch.h"

#include <time.h>

namespace kineto_spyre::device {
namespace {
bool measuring = false;
}

void set_measuring(bool on) { measuring = on; }

int64_t stopwatch() {
  if (!measuring) return 0;
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void launch(c10::DeviceIndex device, const KernelNames& names, const Figures& figures, int64_t measured_ns,
            c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written) {
  spyreKernel_t k{};
  k.name = "";
  k.ns = -1;
  k.flops = figures.flops;
  k.bytes_read = figures.read;
  k.bytes_written = figures.written;
  k.dtype = figures.dtype;
  k.measured_ns = measured_ns;
  KernelName name;
  if (spyreIsTracing()) {  // else nobody reads it
    name = names.of(inputs, written);
    k.name = name.text;
  }
  check(spyreLaunchKernel(device, current_handle(device), &k), "launching a kernel");
}

}  // namespace kineto_spyre::device
