// The plugin as a whole: one a process, made on first use and never destroyed, because libaiupti's threads and Kineto
// may outlive static destruction. Each part has its own header, and may be used from any thread.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "kineto/history.h"
#include "kineto/library_choice.h"
#include "kineto/registration.h"
#include "kineto/settings.h"

namespace kineto_spyre::kineto {

// Tells the user what a session found: a JSON array of diagnostics, after the trace was processed.
class WarningChannel {
 public:
  using Handler = std::function<void(const std::string& diagnostics)>;

  void set_handler(Handler handler);
  void warn(const trace::Diagnostics& diagnostics) const noexcept;

 private:
  mutable std::mutex mutex_;
  Handler handler_;
};

struct Plugin {
  Registration registration;
  LibraryChoice library;
  SettingsReader settings;
  WarningChannel warnings;
  History history;

  static Plugin& get();
  // A JSON object: what is registered, chosen and open, and what sessions left behind.
  std::string status() const;
};

}  // namespace kineto_spyre::kineto
