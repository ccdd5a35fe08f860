// Which libaiupti sessions use: chosen by Python, opened by the first session, open for good. Any thread.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "aiupti/library.h"
#include "kineto/settings.h"
#include "trace/diagnostics.h"

namespace kineto_spyre::kineto {

class LibraryChoice {
 public:
  // False, and nothing changes, if this process has opened a library for another runtime.
  bool choose(std::string runtime, std::vector<std::string> candidates);
  std::string runtime() const;  // "" if none was chosen

  // Opens it if it is not open. Null, with a diagnostic, if it can't be used here.
  const aiupti::Library* open(const Settings& settings, trace::Diagnostics& diagnostics);
  // Why the last open() failed: a JSON array with one diagnostic, or none.
  std::string trouble() const;

 private:
  mutable std::mutex mutex_;
  std::string runtime_;
  std::vector<std::string> candidates_;
  std::string trouble_ = "[]";
  int process_ = 0;  // that opened it
};

}  // namespace kineto_spyre::kineto
