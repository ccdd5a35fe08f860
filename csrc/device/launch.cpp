#include "device/launch.h"

#include <time.h>

#include <memory>

#include "device/hooks.h"

namespace kineto_spyre::device {
namespace {

bool measuring = false;

// Runs on the source's stream; the destination's waits for it, because later work there reads what it wrote.
void launch_peer_copy(c10::DeviceIndex from, c10::DeviceIndex to, uint64_t bytes) {
  const char* const doing = "copying between devices";
  spyreEvent_t done = nullptr;
  check(spyreEventCreate(from, 0, &done), doing);
  const auto destroy = [](spyreEvent_t e) { spyreEventDestroy(e); };
  const std::unique_ptr<spyreEvent_st, decltype(destroy)> owner(done, destroy);
  check(spyreMemcpy(from, nullptr, nullptr, bytes, SPYRE_MEMCPY_PTOP, current_handle(from), SPYRE_EAGER), doing);
  check(spyreEventRecord(done, from, current_handle(from)), doing);
  check(spyreStreamWaitEvent(to, current_handle(to), done), doing);
}

void submit(c10::DeviceIndex device, const char* name, const Figures& figures, int64_t measured_ns) {
  spyreKernel_t k{};
  k.name = name;
  k.ns = -1;
  k.flops = figures.flops;
  k.bytes_read = figures.read;
  k.bytes_written = figures.written;
  k.dtype = figures.dtype;
  k.measured_ns = measured_ns;
  check(spyreLaunchKernel(device, current_handle(device), &k), "launching a kernel");
}

}  // namespace

void set_measuring(bool on) { measuring = on; }

int64_t stopwatch() {
  if (!measuring) return 0;
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void launch(c10::DeviceIndex device, const KernelNames& names, const Figures& figures, int64_t measured_ns,
            c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written) {
  if (!spyreIsTracing()) return submit(device, "", figures, measured_ns);  // nobody reads the name
  const KernelName name = names.of(inputs, written);
  submit(device, name.text, figures, measured_ns);
}

void launch(c10::DeviceIndex device, const char* name, const Figures& figures, int64_t measured_ns) {
  refuse_in_fork();
  submit(device, name, figures, measured_ns);
}

void launch_copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const uint64_t bytes = bytes_of(to);
  if (bytes == 0) return;
  const bool into = to.device().type() == kSpyre;
  if (into && from.device().type() == kSpyre) {
    return launch_peer_copy(from.device().index(), to.device().index(), bytes);
  }
  const c10::DeviceIndex device = into ? to.device().index() : from.device().index();
  const at::Tensor& host = into ? from : to;
  const bool asynchronous = non_blocking && host.layout() == c10::kStrided && is_pinned(host.const_data_ptr());
  check(spyreMemcpy(device, nullptr, nullptr, bytes, into ? SPYRE_MEMCPY_HTOD : SPYRE_MEMCPY_DTOH,
                    current_handle(device), asynchronous ? SPYRE_EAGER : SPYRE_EAGER | SPYRE_BLOCKING),
        "copying");
}

void launch_read_back(c10::DeviceIndex device, uint64_t bytes) {
  check(spyreMemcpy(device, nullptr, nullptr, bytes, SPYRE_MEMCPY_DTOH, current_handle(device),
                    SPYRE_EAGER | SPYRE_BLOCKING),
        "reading a value back");
}

bool launch_zero_fill(const at::Tensor& t) {
  if (t.layout() != c10::kStrided || !t.is_non_overlapping_and_dense() || t.numel() == 0) return false;
  refuse_in_fork();
  const c10::DeviceIndex device = t.device().index();
  void* const data = static_cast<char*>(t.storage().mutable_data()) + t.storage_offset() * t.element_size();
  check(spyreMemset(device, data, 0, bytes_of(t), current_handle(device), SPYRE_EAGER), "zeroing");
  return true;
}

}  // namespace kineto_spyre::device
