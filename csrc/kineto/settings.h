// What the user set for sessions. Python reads the environment, checks it and hands the result over, so that there is
// one reader of it; here is what it hands over, with the defaults of a process without Python's side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "trace/diagnostics.h"

namespace kineto_spyre::kineto {

struct Settings {
  bool align_clocks = true;          // KINETO_SPYRE_CLOCK_ALIGN
  int64_t flush_timeout_ms = 5000;   // KINETO_SPYRE_FLUSH_TIMEOUT_MS
  std::optional<double> buffer_mib;  // KINETO_SPYRE_BUFFER_MB, within this machine's memory
  std::string named_library;         // KINETO_SPYRE_LIBAIUPTI, or ""
  // Whether PrivateUse1 is among the activities of the profile that this thread prepares; false if that is not known.
  bool device_asked = false;
  // Libraries (real paths) whose flush fails or hangs once no kind is enabled, as a selftest of the same file found.
  std::vector<std::string> flush_only_before_disable;
  trace::Diagnostics problems;  // variables that could not be read
};

// Asks whoever reads the settings, at the begin of each session. Any thread.
class SettingsReader {
 public:
  // Nothing, if this thread can't ask (a thread of Kineto's must not wait for Python).
  using Provider = std::function<std::optional<Settings>()>;

  void set_provider(Provider provider);
  // Those of the last time, where the provider gives none; the defaults, and a diagnostic, if it throws.
  Settings read();

 private:
  std::mutex mutex_;  // never held while the provider runs
  Provider provider_;
  Settings last_;
};

// How much memory a session takes. kineto_mb: Kineto's ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB if the user set it, else 0;
// the environment goes before it.
capture::Config capture_config(const Settings& settings, int64_t kineto_mb, trace::Diagnostics& diagnostics);

}  // namespace kineto_spyre::kineto
