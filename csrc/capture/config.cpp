#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>

#include "capture/capture.h"

namespace kineto_spyre::capture {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kLeastMiB = 0.03125;  // 32 KiB: two buffers of 70 compute records

double memory_mib() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMiB;
}

std::string in_mib(double mib) {
  std::string text = std::to_string(mib);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " MiB";
}

void set_budget(Config& config, double mib) {
  config.budget_bytes = static_cast<size_t>(mib * kMiB);
  // At least two buffers, because a library may write calls and device work to different ones.
  config.buffer_bytes = std::min(config.buffer_bytes, config.budget_bytes / 2);
}

// Throws std::bad_alloc.
Config read(const char* text, size_t kineto_mb, std::string* warning) {
  Config config;
  const std::string defaults = "The profiler uses " + in_mib(static_cast<double>(config.budget_bytes) / kMiB) + ".";
  const double most = memory_mib();
  const auto usable = [&](double mib) { return mib >= kLeastMiB && mib <= most; };
  const std::string expected = " is expected to be a number of MiB from " + std::to_string(kLeastMiB).substr(0, 7) +
                               " to this machine's " + in_mib(static_cast<double>(static_cast<int64_t>(most))) +
                               " of memory. ";

  if (text != nullptr && *text != '\0') {
    double mib = 0;
    const auto [end, status] = std::from_chars(text, text + std::strlen(text), mib);
    if (status == std::errc() && *end == '\0' && usable(mib)) {
      set_budget(config, mib);
    } else {
      *warning = "KINETO_SPYRE_BUFFER_MB is '" + std::string(text) + "', but" + expected + defaults;
    }
  } else if (kineto_mb != 0) {
    if (usable(static_cast<double>(kineto_mb))) {
      set_budget(config, static_cast<double>(kineto_mb));
    } else {
      *warning = "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB is " + std::to_string(kineto_mb) + ", but" + expected + defaults;
    }
  }
  return config;
}

}  // namespace

Config make_config(const char* buffer_mb, size_t kineto_mb, std::string* warning) {
  try {
    return read(buffer_mb, kineto_mb, warning);
  } catch (const std::bad_alloc&) {
    *warning = "Out of memory.";  // short enough to need none
    return {};
  }
}

}  // namespace kineto_spyre::capture
