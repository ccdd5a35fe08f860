// The host's clock, as every record of the emulated device knows it: nanoseconds since the Unix epoch.
//
// CLOCK_REALTIME, since libaiupti's records and Kineto are on that clock. No time-stamp counter is assumed.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace kineto_spyre::emulator {

inline uint64_t host_now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// The same instant for a condition variable. system_clock is CLOCK_REALTIME.
inline std::chrono::system_clock::time_point host_time_point(uint64_t ns) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(ns)));
}

}  // namespace kineto_spyre::emulator
