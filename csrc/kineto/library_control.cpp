#include "kineto/library_control.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "capture/capture.h"

namespace kineto_spyre::kineto {
namespace {

using trace::Code;
using trace::JsonObject;

constinit std::atomic<int> hanging{0};  // calls that nobody waits for any more

// One thread at a time enables, disables, flushes: the flight recorder may want to while a session ends. Each waits for
// the library no longer than its timeout.
ForkableMutex library_mutex;
// How many want each kind. A forked child's are its own: it enables what it wants itself.
constinit std::array<int, 256> uses{};
constinit pid_t uses_of = 0;

int& uses_of_kind(AIUpti_ActivityKind kind) {
  if (const pid_t process = getpid(); uses_of != process) {
    uses.fill(0);
    uses_of = process;
  }
  return uses[static_cast<size_t>(kind) % uses.size()];
}

JsonObject result_of(AIUpti_ResultTypes result) { return std::move(JsonObject().number("result", int64_t{result})); }

std::string listed(const std::string& list, const WantedKind& kind, AIUpti_ResultTypes result) {
  return (list.empty() ? "" : list + ", ") + kind.name + " (code " + std::to_string(result) + ")";
}

// The end of one session, shared by the session and the thread that runs it: whichever is later frees it.
struct End {
  decltype(aiupti::Library::flush_all) flush_all;
  decltype(aiupti::Library::disable) disable;
  std::vector<WantedKind> kinds;
  bool flush_again;

  std::mutex mutex;  // guards the rest
  std::condition_variable ended;
  bool is_over = false;
  bool is_hanging = false;  // nobody waits any more
  AIUpti_ResultTypes first_flush = AIUPTI_SUCCESS;
  AIUpti_ResultTypes last_flush = AIUPTI_SUCCESS;
  std::vector<AIUpti_ResultTypes> disabled;

  void run() {
    const AIUpti_ResultTypes first = flush_all();
    std::vector<AIUpti_ResultTypes> results(kinds.size());
    for (size_t i = 0; i < kinds.size(); ++i) results[i] = disable(kinds[i].kind);
    const AIUpti_ResultTypes last = flush_again ? flush_all() : AIUPTI_SUCCESS;
    const std::lock_guard lock(mutex);
    // Release: partner is the acquire in is_hanging(); whoever sees 0 may call the library.
    if (is_hanging) hanging.fetch_sub(1, std::memory_order_release);
    first_flush = first;
    last_flush = last;
    disabled = std::move(results);
    is_over = true;
    ended.notify_one();
  }
};

}  // namespace

bool LibraryControl::is_hanging() { return hanging.load(std::memory_order_acquire) != 0; }

bool LibraryControl::register_callbacks(trace::Diagnostics& diagnostics) {
  const auto result = library_.register_callbacks(capture::on_buffer_requested, capture::on_buffer_completed);
  if (result != AIUPTI_SUCCESS) diagnostics.add(Code::kRegisterCallbacksFailed, 1, result_of(result));
  return result == AIUPTI_SUCCESS;
}

void LibraryControl::enable(const std::vector<WantedKind>& kinds, trace::Diagnostics& diagnostics) {
  const std::lock_guard lock(library_mutex);
  std::string failed;
  uint64_t count = 0;
  for (const WantedKind& kind : kinds) {
    int& wanted = uses_of_kind(kind.kind);
    const auto result = wanted != 0 ? AIUPTI_SUCCESS : library_.enable(kind.kind);
    if (result == AIUPTI_SUCCESS) {
      ++wanted;
      enabled_.push_back(kind);
    } else {
      failed = listed(failed, kind, result);
      ++count;
    }
  }
  diagnostics.add(Code::kEnableFailed, count, JsonObject().text("kinds", failed));
}

void LibraryControl::open_window(trace::Diagnostics& diagnostics) { dropped_before_ = total_dropped(diagnostics); }

uint64_t LibraryControl::dropped(trace::Diagnostics& diagnostics) const {
  return total_dropped(diagnostics) - dropped_before_;
}

uint64_t LibraryControl::total_dropped(trace::Diagnostics& diagnostics) const {
  static ForkableMutex mutex;  // guards the rest
  static uint64_t total = 0;
  static uint64_t last = 0;
  const std::lock_guard lock(mutex);
  size_t first = 0;
  size_t second = 0;
  auto result = library_.dropped_records(&first);
  if (result == AIUPTI_SUCCESS) result = library_.dropped_records(&second);
  if (result != AIUPTI_SUCCESS) {
    if (diagnostics.count(Code::kDroppedCountUnknown) == 0) {  // told once a session
      diagnostics.add(Code::kDroppedCountUnknown, 1, result_of(result));
    }
    return total;
  }
  // Whether the library's count starts again when it is read is not documented: reading twice tells.
  if (second < first) {
    total += first + second;
    last = 0;
  } else {
    total += second >= last ? second - last : second;
    last = second;
  }
  return total;
}

void LibraryControl::pause(int64_t timeout_ms, trace::Diagnostics& diagnostics) {
  paused_.insert(paused_.end(), enabled_.begin(), enabled_.end());
  end(timeout_ms, diagnostics);
}

void LibraryControl::resume(trace::Diagnostics& diagnostics) {
  if (!is_hanging()) enable(std::exchange(paused_, {}), diagnostics);
}

void LibraryControl::end(int64_t timeout_ms, trace::Diagnostics& diagnostics) {
  const std::lock_guard lock(library_mutex);
  std::vector<WantedKind> to_disable;
  for (const WantedKind& kind : std::exchange(enabled_, {})) {
    if (--uses_of_kind(kind.kind) == 0) to_disable.push_back(kind);
  }
  // Where nothing is disabled, the first flush was the last.
  const bool flush_again = last_flush_ && !to_disable.empty();
  run(std::move(to_disable), flush_again, timeout_ms, diagnostics);
}

bool LibraryControl::flush(int64_t timeout_ms, trace::Diagnostics& diagnostics) {
  const std::lock_guard lock(library_mutex);
  return !is_hanging() && run({}, false, timeout_ms, diagnostics);
}

bool LibraryControl::run(std::vector<WantedKind> to_disable, bool flush_again, int64_t timeout_ms,
                         trace::Diagnostics& diagnostics) {
  auto end = std::make_shared<End>();
  end->flush_all = library_.flush_all;
  end->disable = library_.disable;
  end->kinds = std::move(to_disable);
  end->flush_again = flush_again;
  try {
    std::thread([end] { end->run(); }).detach();
  } catch (...) {  // no thread to be had: then this one has to wait
    end->run();
  }
  std::unique_lock lock(end->mutex);
  if (!end->ended.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return end->is_over; })) {
    end->is_hanging = true;
    hanging.fetch_add(1, std::memory_order_relaxed);
    diagnostics.add(Code::kFlushTimedOut, 1, JsonObject().number("timeout_ms", timeout_ms));
    return false;
  }
  if (end->first_flush != AIUPTI_SUCCESS) {
    diagnostics.add(Code::kFlushFailed, 1, result_of(end->first_flush));
  } else if (end->last_flush != AIUPTI_SUCCESS) {
    diagnostics.add(Code::kFlushAfterDisableFailed, 1, result_of(end->last_flush));
  }
  std::string failed;
  uint64_t count = 0;
  for (size_t i = 0; i < end->disabled.size(); ++i) {
    if (end->disabled[i] == AIUPTI_SUCCESS) continue;
    failed = listed(failed, end->kinds[i], end->disabled[i]);
    ++count;
  }
  diagnostics.add(Code::kDisableFailed, count, JsonObject().text("kinds", failed));
  return true;
}

}  // namespace kineto_spyre::kineto
