// How many threads a CPU kernel may use while it runs for backward().
//
// On the CPU, backward runs on the thread that calls it, with that thread's count of intra-op threads. For an
// accelerator, PyTorch runs it on a thread of the device's own, which took its count from a process-wide setting when
// it was started: other code may have set that in between (the thread of a DataLoader that pins memory sets 1), and the
// caller may set another count later. Kernels split their sums by that count, so gradients would differ in the last
// bits. So:
//
//   caller's thread                           device's autograd thread
//   note_backwards_caller()  -- wanted -->    follow_backwards_caller()
//     (hooks.h: as backward begins)             (cpu_fallback.h: before each CPU kernel)
//
// `wanted` is one value for the process: if several threads call backward at the same time with different counts, the
// latest is followed. A reentrant backward keeps the count of the outer one. The process-wide setting is not touched.
#pragma once

namespace kineto_spyre::device {

void note_backwards_caller() noexcept;
void follow_backwards_caller() noexcept;

}  // namespace kineto_spyre::device
