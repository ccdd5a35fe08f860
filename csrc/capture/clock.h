// The stamp of an op event, and how it becomes nanoseconds since the Unix epoch.
//
// Reading a clock is most of what an op event costs, so it takes the cheapest steady counter of its machine: on x86 the
// time-stamp counter where the processor says that it never stops or changes its rate, elsewhere CLOCK_MONOTONIC
// (whose reading s390x, ppc64le and aarch64 do without entering the kernel). What the counter means is found out
// afterwards: it is read beside CLOCK_REALTIME when a window opens and again when it closes, and a straight line
// through those two points turns the stamps between them into time.
//
// A reading beside a reading is never exact: whatever happened between them is its error. So each point is the
// narrowest of 50 brackets (counter, clock, counter), and its error at most half the bracket: some 10 ns.
#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace kineto_spyre::capture {

// CLOCK_MONOTONIC in nanoseconds: a counter that every machine has.
inline uint64_t portable_ticks() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Whether fast_ticks() may be used on this machine. Constant for the life of the process.
bool has_fast_ticks() noexcept;

// Only if has_fast_ticks().
inline uint64_t fast_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return portable_ticks();
#endif
}

inline uint64_t ticks() noexcept { return has_fast_ticks() ? fast_ticks() : portable_ticks(); }

// CLOCK_REALTIME, nanoseconds since the Unix epoch.
inline int64_t unix_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// The counter and the clock at one moment.
struct ClockPoint {
  uint64_t ticks;
  int64_t ns;
  uint64_t bracket;  // ticks between the counter's readings around the clock's: the error is at most half of it
};
ClockPoint clock_point() noexcept;

// The line through two points. Exact to the points' own errors between them; do not go far beyond.
class TickConverter {
 public:
  TickConverter(const ClockPoint& first, const ClockPoint& second) noexcept;
  int64_t to_ns(uint64_t ticks) const noexcept {
    const double elapsed = static_cast<double>(static_cast<int64_t>(ticks - first_.ticks));
    const double ns = elapsed * ns_per_tick_;
    return first_.ns + static_cast<int64_t>(ns + (ns < 0 ? -0.5 : 0.5));
  }
  // The larger of the two points' errors, in ns.
  double error_ns() const noexcept { return error_ns_; }

 private:
  ClockPoint first_;
  double ns_per_tick_;
  double error_ns_;
};

}  // namespace kineto_spyre::capture
