// The plugin as a whole: what was chosen, what is open, what the last session found.
//
// There is one a process, made on first use and never destroyed: libaiupti's threads and Kineto may outlive static
// destruction. Everything here may be called from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aiupti/library.h"
#include "trace/trace.h"

namespace kineto_spyre::kineto {

using WarningHandler = std::function<void(const std::string&)>;

// A variable of the environment as the C++ side understood it.
struct Environment {
  bool align_clocks = true;         // KINETO_SPYRE_CLOCK_ALIGN: auto (default) or off
  int64_t flush_timeout_ms = 5000;  // KINETO_SPYRE_FLUSH_TIMEOUT_MS
  std::vector<std::string> warnings;
};
Environment read_environment();

// What the last stop cost, in processor time.
struct Cost {
  uint64_t records = 0;
  int64_t reading_ns = 0;       // from buffers to a trace: walk, check, join, align, place
  int64_t handing_over_ns = 0;  // from there to Kineto
  size_t activity_bytes = 0;    // memory of the activities, beyond the records
};

class Plugin {
 public:
  static Plugin& get();

  // "ours", or "other" if another factory holds PyTorch's one slot and override is false.
  std::string register_factory(bool override);
  std::string factory() const;
  // Once, when a factory that was registered after ours turns up; "" otherwise.
  std::string foreign_factory_notice();

  // Throws std::runtime_error with a sentence if another library is open already.
  void set_libraries(std::string runtime, std::vector<std::string> candidates);
  std::string runtime() const;
  // Opens it if it is not open. Null, with a sentence in *error.
  const aiupti::Library* library(std::string* error);

  void set_warning_handler(WarningHandler handler);
  void warn(const std::string& sentence) const noexcept;

  // A session is live from configure until it is stopped or given up.
  void session_began();
  void session_over();
  bool recording() const;
  void set_last_session(std::string json, const std::array<trace::Sizes, aiupti::kKinds>& sizes);
  void set_last_cost(const Cost& cost);
  std::string last_session() const;
  std::string status() const;

  // Waits for libaiupti to hand over its records, at most so long. False if it did not come back or an earlier flush
  // still has not; *error then says so, as it does if the library returned an error.
  bool flush(const aiupti::Library& library, int64_t timeout_ms, std::string* error);
  bool flush_hangs() const;

 private:
  Plugin() = default;

  mutable std::mutex mutex_;
  std::string runtime_;
  std::vector<std::string> candidates_;
  std::string library_error_;
  int library_process_ = 0;  // that opened it
  WarningHandler handler_;
  uint64_t sessions_ = 0;
  uint64_t live_ = 0;  // of them
  std::string last_session_;
  Cost last_cost_;
  std::array<trace::Sizes, aiupti::kKinds> sizes_{};

  bool registered_ = false;
  bool made_ = false;  // Kineto took our factory and has our profiler
  bool foreign_noted_ = false;
  std::weak_ptr<int> token_;  // alive while PyTorch or Kineto holds our factory
  std::shared_ptr<std::atomic<int>> flushing_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace kineto_spyre::kineto
