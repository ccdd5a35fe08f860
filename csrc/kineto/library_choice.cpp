#include "kineto/library_choice.h"

#include <unistd.h>

#include <utility>

namespace kineto_spyre::kineto {

using trace::Code;
using trace::JsonObject;

bool LibraryChoice::choose(std::string runtime, std::vector<std::string> candidates) {
  const std::lock_guard lock(mutex_);
  if (aiupti::opened_library() != nullptr && runtime != runtime_) return false;
  runtime_ = std::move(runtime);
  candidates_ = std::move(candidates);
  return true;
}

std::string LibraryChoice::runtime() const {
  const std::lock_guard lock(mutex_);
  return runtime_;
}

std::string LibraryChoice::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

const aiupti::Library* LibraryChoice::open(const Settings& settings, trace::Diagnostics& diagnostics) {
  std::vector<std::string> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates = candidates_;
    if (process_ != 0 && process_ != getpid()) {
      diagnostics.add(Code::kLibraryOpenedBeforeFork);
      return nullptr;
    }
  }
  std::string tried;
  const aiupti::Library* library = aiupti::open_library(candidates, &tried);
  trace::Diagnostics found;
  if (library == nullptr) {
    const bool named = candidates.size() == 1 && candidates.front() == settings.named_library;
    found.add(named ? Code::kLibraryNamedUnusable : Code::kLibraryNotFound, 1, JsonObject().text("tried", tried));
  } else if (!library->in_place_of.empty()) {
    found.add(Code::kLibraryAlreadyMappedElsewhere, 1,
              JsonObject().text("path", library->path).text("named", library->in_place_of));
  }
  diagnostics.add(found);
  const std::lock_guard lock(mutex_);
  trouble_ = library == nullptr ? found.json() : "[]";
  if (library != nullptr && process_ == 0) process_ = getpid();
  return library;
}

}  // namespace kineto_spyre::kineto
