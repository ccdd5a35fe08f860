#include "capture/clock.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kineto_spyre::capture {
namespace {

bool find_fast_ticks() noexcept {
#if defined(__x86_64__)
  // Leaf 0x80000007, EDX bit 8: the counter runs at one rate in every power state.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

bool has_fast_ticks() noexcept {
  static const bool fast = find_fast_ticks();
  return fast;
}

ClockPoint clock_point() noexcept {
  constexpr int kBrackets = 50;
  ClockPoint best{0, 0, UINT64_MAX};
  for (int i = 0; i < kBrackets; ++i) {
    const uint64_t before = ticks();
    const int64_t ns = unix_ns();
    const uint64_t after = ticks();
    if (after - before < best.bracket) best = {before + (after - before) / 2, ns, after - before};
  }
  return best;
}

TickConverter::TickConverter(const ClockPoint& first, const ClockPoint& second) noexcept : first_(first) {
  // Two points at one tick (a window that never opened) fix no slope; no stamp lies between them either.
  const double ticks = std::max(1.0, static_cast<double>(second.ticks - first.ticks));
  ns_per_tick_ = static_cast<double>(second.ns - first.ns) / ticks;
  error_ns_ = 0.5 * ns_per_tick_ * static_cast<double>(std::max(first.bracket, second.bracket));
}

}  // namespace kineto_spyre::capture
