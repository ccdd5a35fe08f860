#include "selftest/probe.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace kineto_spyre::selftest {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLeastMemory = size_t{64} << 10;  // behind a buffer that is told to be short

int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

uint8_t* memory(size_t bytes) {
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return static_cast<uint8_t*>(std::aligned_alloc(kAlignment, whole));
}

}  // namespace

Probe& Probe::get() {
  static auto* probe = new Probe;  // never destroyed: the library's threads outlive static objects
  return *probe;
}

std::map<std::string, bool> Probe::open(const std::string& path, const std::map<std::string, std::string>& names) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(reason != nullptr ? reason : "the loader can't load it");
  }
  std::map<std::string, bool> found;
  const auto look_up = [&](const char* plain, auto& function) {
    const auto name = names.find(plain);
    void* symbol = name == names.end() ? nullptr : dlsym(handle, name->second.c_str());
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    found[plain] = symbol != nullptr;
  };
  look_up("aiuptiActivityRegisterCallbacks", register_);
  look_up("aiuptiActivityEnable", enable_);
  look_up("aiuptiActivityDisable", disable_);
  look_up("aiuptiActivityGetNextRecord", next_);
  look_up("aiuptiActivityGetNumDroppedRecords", dropped_);
  look_up("aiuptiFlushAllActivities", flush_);
  return found;
}

void Probe::set_buffers(size_t bytes, size_t max_records, size_t short_ones, size_t short_bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ = bytes;
  max_records_ = max_records;
  short_ones_ = short_ones;
  short_bytes_ = short_bytes;
}

template <class Function, class... Arguments>
Outcome Probe::call(const char* name, Function function, Arguments... arguments) {
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is missing");
  Outcome outcome;
  outcome.number = ++calls_;
  during_.store(outcome.number, std::memory_order_relaxed);
  const int64_t begin = clock_ns(CLOCK_MONOTONIC);
  outcome.code = static_cast<int>(function(arguments...));
  outcome.ns = clock_ns(CLOCK_MONOTONIC) - begin;
  during_.store(0, std::memory_order_relaxed);
  return outcome;
}

Outcome Probe::register_callbacks() {
  return call("aiuptiActivityRegisterCallbacks", register_, on_requested, on_completed);
}

Outcome Probe::enable(int kind) {
  return call("aiuptiActivityEnable", enable_, static_cast<AIUpti_ActivityKind>(kind));
}

Outcome Probe::disable(int kind) {
  return call("aiuptiActivityDisable", disable_, static_cast<AIUpti_ActivityKind>(kind));
}

Outcome Probe::flush() { return call("aiuptiFlushAllActivities", flush_); }

Outcome Probe::dropped() {
  size_t count = 0;
  Outcome outcome = call("aiuptiActivityGetNumDroppedRecords", dropped_, &count);
  outcome.value = count;
  return outcome;
}

Outcome Probe::next_of_nothing() {
  static uint8_t* nothing = memory(kLeastMemory);
  AIUpti_Activity* record = nullptr;
  return call("aiuptiActivityGetNextRecord", next_, nothing, size_t{0}, &record);
}

std::pair<uint8_t*, size_t> Probe::valid_part(int64_t buffer) const {
  const std::lock_guard lock(mutex_);
  if (buffer < 0 || static_cast<size_t>(buffer) >= buffers_.size()) throw std::runtime_error("there is no such buffer");
  const Lent& lent = buffers_[static_cast<size_t>(buffer)];
  return {lent.data, std::min(lent.valid, lent.size)};
}

std::vector<Step> Probe::iterate(int64_t buffer, size_t limit) {
  if (next_ == nullptr) throw std::runtime_error("aiuptiActivityGetNextRecord is missing");
  const auto [data, valid] = valid_part(buffer);
  std::vector<Step> steps;
  AIUpti_Activity* record = nullptr;
  while (steps.size() < limit) {
    const int code = next_(data, valid, &record);
    const auto* at = reinterpret_cast<const uint8_t*>(record);
    int64_t offset = -1;
    if (at != nullptr) offset = at >= data && at < data + valid ? at - data : -2;
    steps.push_back({code, offset});
    if (code != AIUPTI_SUCCESS) break;
  }
  return steps;
}

std::vector<Event> Probe::events(size_t first) const {
  const std::lock_guard lock(mutex_);
  return {events_.begin() + static_cast<std::ptrdiff_t>(std::min(first, events_.size())), events_.end()};
}

std::string Probe::content(int64_t buffer) const {
  const auto [data, valid] = valid_part(buffer);
  return {reinterpret_cast<const char*>(data), valid};
}

void Probe::on_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  Probe& probe = get();
  const auto thread = static_cast<int32_t>(syscall(SYS_gettid));
  const std::lock_guard lock(probe.mutex_);
  size_t told = probe.bytes_;
  if (probe.short_ones_ != 0) {
    --probe.short_ones_;
    told = probe.short_bytes_;
  }
  uint8_t* data = nullptr;
  const size_t whole = std::max(told, kLeastMemory);
  if (probe.lent_bytes_ + whole <= kMaxBytes) data = memory(whole);
  int64_t number = -1;
  if (data != nullptr) {
    probe.lent_bytes_ += whole;
    number = static_cast<int64_t>(probe.buffers_.size());
    probe.buffers_.push_back({data, told, 0, true});
  } else {
    if (probe.scratch_ == nullptr) probe.scratch_ = memory(size_t{1} << 20);
    data = probe.scratch_;
    told = std::min(told, size_t{1} << 20);
  }
  *buffer = data;
  *size = told;
  if (max_records != nullptr) *max_records = probe.max_records_;
  probe.events_.push_back({Event::What::kRequested, clock_ns(CLOCK_REALTIME), thread,
                           probe.during_.load(std::memory_order_relaxed), number, told, 0});
}

void Probe::on_completed(uint8_t* buffer, size_t size, size_t valid) {
  Probe& probe = get();
  const auto thread = static_cast<int32_t>(syscall(SYS_gettid));
  const std::lock_guard lock(probe.mutex_);
  Event event{Event::What::kUnknown,
              clock_ns(CLOCK_REALTIME),
              thread,
              probe.during_.load(std::memory_order_relaxed),
              -1,
              size,
              valid};
  if (buffer == probe.scratch_) {
    event.what = Event::What::kCompleted;
  } else {
    for (size_t i = probe.buffers_.size(); i-- > 0;) {
      Lent& lent = probe.buffers_[i];
      if (lent.data != buffer) continue;
      event.buffer = static_cast<int64_t>(i);
      if (lent.out) event.what = Event::What::kCompleted;
      lent.out = false;
      lent.valid = valid;
      break;
    }
  }
  probe.events_.push_back(event);
}

}  // namespace kineto_spyre::selftest
