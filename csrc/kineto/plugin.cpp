#include "kineto/plugin.h"

#include <utility>

namespace kineto_spyre::kineto {

using trace::JsonObject;

void WarningChannel::set_handler(Handler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void WarningChannel::warn(const trace::Diagnostics& diagnostics) const noexcept {
  try {
    if (diagnostics.all().empty()) return;
    Handler handler;
    {
      const std::lock_guard lock(mutex_);
      handler = handler_;
    }
    if (handler) handler(diagnostics.json());
  } catch (...) {  // a warning must not become an error in the profiled program
  }
}

Plugin& Plugin::get() {
  static auto* plugin = new Plugin;
  return *plugin;
}

std::string Plugin::status() const {
  const auto text_or_null = [](JsonObject& json, const char* key, const std::string& text) {
    if (text.empty()) {
      json.raw(key, "null");
    } else {
      json.text(key, text);
    }
  };
  const aiupti::Library* open = aiupti::opened_library();
  JsonObject json;
  text_or_null(json, "runtime", library.runtime());
  text_or_null(json, "library", open != nullptr ? open->path : "");
  json.raw("library_trouble", library.trouble()).text("factory", registration.factory());
  history.add_to(json);
  return json.str();
}

}  // namespace kineto_spyre::kineto
