#include "kineto/settings.h"

#include <exception>
#include <utility>

namespace kineto_spyre::kineto {

using trace::Code;
using trace::JsonObject;

void SettingsReader::set_provider(Provider provider) {
  const std::lock_guard lock(mutex_);
  provider_ = std::move(provider);
}

Settings SettingsReader::read() {
  Provider provider;
  {
    const std::lock_guard lock(mutex_);
    provider = provider_;
  }
  Settings settings;
  try {
    const std::optional<Settings> read = provider ? provider() : std::nullopt;
    const std::lock_guard lock(mutex_);
    if (!read) return last_;
    settings = *read;
    last_ = *read;
    last_.device_asked = false;  // of that one profile
  } catch (const std::exception& error) {
    settings.problems.add(Code::kSettingsNotRead, 1, JsonObject().text("error", error.what()));
  }
  return settings;
}

capture::Config capture_config(const Settings& settings, int64_t kineto_mb, trace::Diagnostics& diagnostics) {
  if (settings.buffer_mib) return capture::config_of(*settings.buffer_mib);
  if (kineto_mb > 0) {
    const auto mib = static_cast<double>(kineto_mb);
    if (capture::is_budget(mib)) return capture::config_of(mib);
    JsonObject details;
    details.text("variable", "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB").text("value", std::to_string(kineto_mb));
    details.text("expected", "a number of MiB up to this machine's memory").text("default", "1024");
    diagnostics.add(Code::kSettingInvalid, 1, details);
  }
  return {};
}

}  // namespace kineto_spyre::kineto
