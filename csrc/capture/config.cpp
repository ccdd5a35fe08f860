#include <unistd.h>

#include <algorithm>

#include "capture/capture.h"

namespace kineto_spyre::capture {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kLeastMiB = 0.03125;  // 32 KiB: two buffers of 70 compute records

double memory_mib() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMiB;
}

}  // namespace

bool is_budget(double mib) { return mib >= kLeastMiB && mib <= memory_mib(); }

Config config_of(double mib) {
  Config config;
  config.budget_bytes = static_cast<size_t>(mib * kMiB);
  // At least two buffers, because calls and device work are written by different threads.
  config.buffer_bytes = std::min(config.buffer_bytes, config.budget_bytes / 2);
  return config;
}

}  // namespace kineto_spyre::capture
