#include "kineto/plugin.h"

#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "kineto/profiler_stubs.h"
#include "kineto/profiler.h"
#include "trace/text.h"

namespace kineto_spyre::kineto {
namespace {

using torch::profiler::impl::PrivateUse1ProfilerRegistry;
using trace::JsonObject;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Environment read_environment() {
  Environment environment;
  if (const std::string value = variable("KINETO_SPYRE_CLOCK_ALIGN"); value == "off") {
    environment.align_clocks = false;
  } else if (!value.empty() && value != "auto") {
    environment.warnings.push_back("KINETO_SPYRE_CLOCK_ALIGN is '" + value +
                                   "', but is expected to be off or auto. The profiler uses auto.");
  }
  if (const std::string value = variable("KINETO_SPYRE_FLUSH_TIMEOUT_MS"); !value.empty()) {
    int64_t ms = 0;
    const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), ms);
    if (status == std::errc() && end == value.data() + value.size() && ms >= 1 && ms <= 600'000) {
      environment.flush_timeout_ms = ms;
    } else {
      environment.warnings.push_back(
          "KINETO_SPYRE_FLUSH_TIMEOUT_MS is '" + value +
          "', but is expected to be a whole number from 1 to 600000. The profiler uses 5000.");
    }
  }
  return environment;
}

Plugin& Plugin::get() {
  static auto* plugin = new Plugin;
  return *plugin;
}

std::string Plugin::register_factory(bool override) {
  {
    const std::lock_guard lock(mutex_);
    if (made_ || !token_.expired()) return "ours";
  }
  PrivateUse1ProfilerRegistry& registry = PrivateUse1ProfilerRegistry::instance();
  if (registry.hasFactory() && !override) return "other";
  auto token = std::make_shared<int>(0);
  {
    const std::lock_guard lock(mutex_);
    registered_ = true;
    token_ = token;
  }
  // PyTorch may call this before registerFactory returns, or at the first profile.
  registry.registerFactory([this, token = std::move(token)] {
    const std::lock_guard lock(mutex_);
    made_ = true;
    return std::make_unique<Profiler>();
  });
  register_profiler_stubs();
  return factory();
}

std::string Plugin::factory() const {
  PrivateUse1ProfilerRegistry& registry = PrivateUse1ProfilerRegistry::instance();
  const bool any = registry.hasFactory();
  const bool taken = registry.isRegisteredWithKineto();
  const std::lock_guard lock(mutex_);
  if (made_) return "ours";
  if (!registered_ || token_.expired()) return any ? "other" : "none";
  // Kineto takes one factory, ever. If it has one and that was not ours, only the registry still holds ours.
  return taken && token_.use_count() == 1 ? "other" : "ours";
}

std::string Plugin::foreign_factory_notice() {
  const std::lock_guard lock(mutex_);
  if (!made_ || !token_.expired() || foreign_noted_) return "";
  foreign_noted_ = true;
  return "Another plugin registered a PrivateUse1 profiler after kineto_spyre's. PyTorch had taken kineto_spyre's by "
         "then and keeps it, so what the other one would record is not in the trace. Set KINETO_SPYRE_AUTOLOAD=0 to "
         "profile with the other one.";
}

void Plugin::set_libraries(std::string runtime, std::vector<std::string> candidates) {
  const std::lock_guard lock(mutex_);
  if (const aiupti::Library* open = aiupti::opened_library(); open != nullptr && runtime != runtime_) {
    throw std::runtime_error("This process has opened " + open->path + " for the runtime '" + runtime_ +
                             "', and a libaiupti stays open for good. Start a new process to profile with '" + runtime +
                             "'.");
  }
  runtime_ = std::move(runtime);
  candidates_ = std::move(candidates);
}

std::string Plugin::runtime() const {
  const std::lock_guard lock(mutex_);
  return runtime_;
}

const aiupti::Library* Plugin::library(std::string* error) {
  std::vector<std::string> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates = candidates_;
    if (library_process_ != 0 && library_process_ != getpid()) {
      *error =
          "libaiupti was opened by this process's parent before it forked, and can't be used here: its threads "
          "stayed with the parent. Start workers with 'spawn' to profile in them.";
      return nullptr;
    }
  }
  const aiupti::Library* library = aiupti::open_library(candidates, error);
  const std::lock_guard lock(mutex_);
  library_error_ = library == nullptr ? *error : "";
  if (library != nullptr && library_process_ == 0) library_process_ = getpid();
  return library;
}

void Plugin::set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void Plugin::warn(const std::string& sentence) const noexcept {
  try {
    WarningHandler handler;
    {
      const std::lock_guard lock(mutex_);
      handler = handler_;
    }
    if (handler) handler(sentence);
  } catch (...) {  // a warning must not become an error in the profiled program
  }
}

void Plugin::session_began() {
  const std::lock_guard lock(mutex_);
  ++sessions_;
  ++live_;
}

void Plugin::session_over() {
  const std::lock_guard lock(mutex_);
  --live_;
}

bool Plugin::recording() const {
  const std::lock_guard lock(mutex_);
  return live_ != 0;
}

void Plugin::set_last_session(std::string json, const std::array<trace::Sizes, aiupti::kKinds>& sizes) {
  const std::lock_guard lock(mutex_);
  last_session_ = std::move(json);
  for (size_t kind = 0; kind < sizes.size(); ++kind) {
    if (sizes[kind].seen != 0) sizes_[kind] = sizes[kind];
  }
}

void Plugin::set_last_cost(const Cost& cost) {
  const std::lock_guard lock(mutex_);
  last_cost_ = cost;
}

std::string Plugin::last_session() const {
  const std::lock_guard lock(mutex_);
  return last_session_;
}

std::string Plugin::status() const {
  const std::string whose = factory();
  const Environment environment = read_environment();
  const aiupti::Library* open = aiupti::opened_library();
  JsonObject records;
  JsonObject json;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < aiupti::kKinds; ++i) {
    const auto kind = static_cast<aiupti::Kind>(i);
    if (aiupti::size_of(kind) == 0) continue;
    JsonObject sizes;
    sizes.number("built", uint64_t{aiupti::size_of(kind)}).number("seen", uint64_t{sizes_[i].seen});
    records.raw(aiupti::kind_name(kind), sizes.str());
  }
  if (runtime_.empty()) {
    json.raw("runtime", "null");
  } else {
    json.text("runtime", runtime_);
  }
  if (open == nullptr) {
    json.raw("library", "null");
  } else {
    json.text("library", open->path);
  }
  json.text("library_error", library_error_).text("factory", whose).number("sessions", sessions_);
  json.raw("records", records.str());
  JsonObject cost;
  cost.number("records", last_cost_.records).number("reading_ns", last_cost_.reading_ns);
  cost.number("handing_over_ns", last_cost_.handing_over_ns);
  cost.number("activity_bytes", uint64_t{last_cost_.activity_bytes});
  json.raw("last_stop", cost.str());
  JsonObject variables;
  variables.text("KINETO_SPYRE_CLOCK_ALIGN", environment.align_clocks ? "auto" : "off");
  variables.number("KINETO_SPYRE_FLUSH_TIMEOUT_MS", environment.flush_timeout_ms);
  variables.text("KINETO_SPYRE_BUFFER_MB", variable("KINETO_SPYRE_BUFFER_MB"));
  json.raw("environment", variables.str());
  return json.str();
}

bool Plugin::flush_hangs() const { return flushing_->load(std::memory_order_acquire) != 0; }

bool Plugin::flush(const aiupti::Library& library, int64_t timeout_ms, std::string* error) {
  struct Call {
    std::mutex mutex;
    std::condition_variable done;
    bool ended = false;
    AIUpti_ResultTypes result = AIUPTI_SUCCESS;
  };
  auto call = std::make_shared<Call>();
  // Release and acquire pair with flush_hangs(): a session that sees 0 may call the library again.
  flushing_->fetch_add(1, std::memory_order_acq_rel);
  try {
    // On a thread of its own, which is left behind if the library never comes back.
    std::thread([call, flushing = flushing_, function = library.flush_all] {
      const AIUpti_ResultTypes result = function();
      flushing->fetch_sub(1, std::memory_order_release);
      const std::lock_guard lock(call->mutex);
      call->ended = true;
      call->result = result;
      call->done.notify_one();
    }).detach();
  } catch (...) {  // no thread to be had: then this one has to wait
    const AIUpti_ResultTypes result = library.flush_all();
    flushing_->fetch_sub(1, std::memory_order_release);
    if (result != AIUPTI_SUCCESS) *error = "aiuptiFlushAllActivities failed with code " + std::to_string(result) + ".";
    return true;
  }
  std::unique_lock lock(call->mutex);
  if (!call->done.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return call->ended; })) {
    *error =
        "aiuptiFlushAllActivities did not come back within " + std::to_string(timeout_ms) +
        " ms, so records that libaiupti still held are missing. KINETO_SPYRE_FLUSH_TIMEOUT_MS sets how long to wait.";
    return false;
  }
  if (call->result != AIUPTI_SUCCESS) {
    *error = "aiuptiFlushAllActivities failed with code " + std::to_string(call->result) +
             ", so records that libaiupti still held may be missing.";
  }
  return true;
}

}  // namespace kineto_spyre::kineto
