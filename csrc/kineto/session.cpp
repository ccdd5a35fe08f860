#include "kineto/session.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <output_base.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>

#include "capture/ring.h"
#include "kineto/host_ranges.h"
#include "kineto/plugin.h"
#include "trace/text.h"

namespace kineto_spyre::kineto {
namespace {

using libkineto::ActivityType;
using trace::Category;
using trace::Code;
using trace::JsonObject;

constexpr int64_t kDeviceSortBase = 5'000'000;  // below all host processes, as Kineto sorts devices

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// This thread's processor time: what work costs, however busy the machine is.
int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Adds the processor time of its own life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t* sum) : sum_(sum), begin_(processor_ns()) {}
  ~Stopwatch() { *sum_ += processor_ns() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  int64_t* sum_;
  int64_t begin_;
};

// Signal 0 is not sent; it only asks for the process.
bool process_exists(uint32_t id) { return kill(static_cast<pid_t>(id), 0) == 0 || errno == EPERM; }

// Bytes of the first device's memory, as PyTorch's allocator for it says; 0 where there is none in use, or it can't.
uint64_t device_memory() {
  try {
    if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1)) return 0;
    auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::PrivateUse1));
    return allocator != nullptr && allocator->initialized() ? allocator->getMemoryInfo(0).second : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

libkineto::DeviceInfo device_info(uint32_t device) {
  return {device, kDeviceSortBase + device, "Spyre", "AIU " + std::to_string(device)};
}

// The session between start and stop, for set_recording().
std::mutex current_mutex;
Session* current = nullptr;

// An aggregate from PyTorch 2.13 on; before, it had a constructor that takes its members in another order.
template <class Info = libkineto::ResourceInfo>
Info resource_info(const trace::Track& track) {
  if constexpr (std::is_aggregate_v<Info>) {
    return {.id = track.tid, .sortIndex = track.sort, .deviceId = track.process, .name = track.name};
  } else {
    return {track.process, track.tid, track.sort, track.name};
  }
}

}  // namespace

template <class F>
void Session::guarded(const char* doing, F f) noexcept {
  try {
    std::string error = "unknown error";
    try {
      return f();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    } catch (...) {
    }
    diagnostics_.add(Code::kInternalError, 1, JsonObject().text("doing", doing).text("error", error));
  } catch (...) {  // no memory for the diagnostic either
  }
}

Session::Session(const std::set<ActivityType>& types, int64_t kineto_buffer_mb)
    : process_(getpid()), want_ranges_(types.contains(ActivityType::GPU_USER_ANNOTATION)) {
  options_.process_id = facts_.process_id = static_cast<uint32_t>(process_);
  options_.process_exists = process_exists;
  const auto want = [&](Category category, ActivityType type) {
    options_.wanted[static_cast<size_t>(category)] = types.contains(type);
  };
  want(Category::kKernel, ActivityType::CONCURRENT_KERNEL);
  want(Category::kMemcpy, ActivityType::GPU_MEMCPY);
  want(Category::kMemset, ActivityType::GPU_MEMSET);
  want(Category::kMemory, ActivityType::GPU_MEMSET);
  want(Category::kRuntime, ActivityType::PRIVATEUSE1_RUNTIME);
  want(Category::kDriver, ActivityType::PRIVATEUSE1_DRIVER);
  guarded("prepare recording", [&] { arm(kineto_buffer_mb); });
}

Session::~Session() {
  over();
  if (state_ != State::kArmed && state_ != State::kRecording) return;
  // Dropped without a stop: the program ended in the middle, or PyTorch gave the profile up.
  guarded("end an abandoned session", [&] {
    if (in_child()) return;
    control_->end(settings_.flush_timeout_ms, diagnostics_);
    capture::abandon();
  });
}

bool Session::in_child() const { return getpid() != process_; }

void Session::arm(int64_t kineto_buffer_mb) {
  Plugin& plugin = Plugin::get();
  plugin.history.session_began();
  live_ = true;
  facts_.runtime = plugin.library.runtime();
  settings_ = plugin.settings.read();
  diagnostics_.add(settings_.problems);
  options_.align_clocks = settings_.align_clocks;
  if (plugin.registration.take_foreign_factory()) diagnostics_.add(Code::kForeignFactory);
  if (LibraryControl::is_hanging()) {
    diagnostics_.add(Code::kFlushStillHangs);
    return;
  }
  library_ = plugin.library.open(settings_, diagnostics_);
  if (library_ == nullptr) return;
  facts_.library = library_->path;
  if (!prepare_capture(kineto_buffer_mb)) return;
  std::error_code unresolved;
  const std::string file = std::filesystem::canonical(library_->path, unresolved).string();
  control_.emplace(*library_, std::ranges::find(settings_.flush_only_before_disable, file) ==
                                  settings_.flush_only_before_disable.end());
  if (!control_->register_callbacks(diagnostics_)) {
    capture::abandon();
    return;
  }
  state_ = State::kArmed;
  control_->enable(wanted_kinds(), diagnostics_);
}

bool Session::prepare_capture(int64_t kineto_buffer_mb) {
  capture::Config config = capture_config(settings_, kineto_buffer_mb, diagnostics_);
  config.count_records = aiupti::count_records;
  const bool busy = capture::armed();
  std::string reason;
  if (capture::prepare(config, &reason)) return true;
  JsonObject details;
  details.number("mib", uint64_t{config.budget_bytes >> 20}).text("reason", reason);
  diagnostics_.add(busy ? Code::kSessionBusy : Code::kMemoryNotReserved, 1, details);
  return false;
}

// Whatever of the device is wanted, its runtime calls are recorded, because they are what work is joined by.
std::vector<WantedKind> Session::wanted_kinds() const {
  const auto wanted = [&](Category category) { return options_.wanted[static_cast<size_t>(category)]; };
  std::vector<WantedKind> kinds = {{AIUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls"}};
  if (wanted(Category::kDriver)) kinds.push_back({AIUPTI_ACTIVITY_KIND_DRIVER, "driver calls"});
  if (wanted(Category::kKernel)) kinds.push_back({AIUPTI_ACTIVITY_KIND_CMPT, "kernels"});
  if (wanted(Category::kMemcpy)) kinds.push_back({AIUPTI_ACTIVITY_KIND_MEMCPY, "copies"});
  if (wanted(Category::kMemcpy)) kinds.push_back({AIUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices"});
  if (wanted(Category::kMemset)) kinds.push_back({AIUPTI_ACTIVITY_KIND_MEMSET, "fills"});
  if (wanted(Category::kMemory)) kinds.push_back({AIUPTI_ACTIVITY_KIND_MEMORY, "allocations"});
  return kinds;
}

void Session::start() {
  if (state_ == State::kArmed) {
    guarded("start recording", [&] {
      control_->open_window(diagnostics_);
      capture::open_window();
      state_ = State::kRecording;
      const std::lock_guard lock(current_mutex);
      current = this;
    });
  }
  options_.window_begin = now_ns();
}

void Session::set_recording(bool on) {
  const std::lock_guard lock(current_mutex);
  if (current == nullptr || current->in_child()) return;
  Session& session = *current;
  session.guarded("pause and resume recording", [&] {
    if (on) {
      if (capture::ring_is_running()) session.control_->flush(session.settings_.flush_timeout_ms, session.diagnostics_);
      capture::copy_to_session(true);
      session.control_->resume(session.diagnostics_);
    } else {
      session.control_->pause(session.settings_.flush_timeout_ms, session.diagnostics_);
      capture::copy_to_session(false);
    }
  });
}

void Session::over() {
  {
    const std::lock_guard lock(current_mutex);
    if (current == this) current = nullptr;
  }
  if (std::exchange(live_, false)) Plugin::get().history.session_over();
}

void Session::stop() {
  options_.window_end = now_ns();
  over();
  if (state_ != State::kRecording) return;
  if (in_child()) {
    guarded("report the fork", [&] { diagnostics_.add(Code::kSessionInForkedChild); });
    state_ = State::kOff;
    return;
  }
  state_ = State::kStopped;
  facts_.recorded = true;
  // Each for itself: whatever fails, the capture must come to its end, or no other session could begin.
  guarded("end the window", [&] { capture::close_window(); });
  guarded("flush libaiupti", [&] {
    control_->end(settings_.flush_timeout_ms, diagnostics_);
    if (!LibraryControl::is_hanging()) facts_.dropped = control_->dropped(diagnostics_);
  });
  guarded("collect the records", [&] {
    capture::copy_to_session(true);  // from the flight recorder, if one runs; on again for the next session
    capture_result_ = capture::take_result();
    facts_.drops = capture_result_.drops();
    facts_.dropped += facts_.drops.records_dropped;
  });
}

void Session::make() {
  if (state_ == State::kMade) return;
  const Stopwatch watch(&reading_ns_);
  const bool recorded = state_ == State::kStopped;
  state_ = State::kMade;
  auto arena = std::make_unique<Arena>();
  guarded("read the records", [&] {
    if (!recorded) return;
    arena->capture_result = std::move(capture_result_);
    const capture::CaptureResult& result = arena->capture_result;
    options_.emulated = library_->emulated;
    const std::lock_guard lock(iteration_mutex);
    making_.emplace(trace::Input{result.buffers(), result.threads(), library_->next_record}, options_, arena.get(),
                    &arena->trace);
  });
  arena_ = std::move(arena);
  guarded("report on the session", [&] {
    facts_.window_begin = options_.window_begin;
    facts_.window_end = options_.window_end;
    diagnose(facts_, arena_->trace, diagnostics_);
    report_ = report(facts_, arena_->trace, diagnostics_);
    Plugin::get().history.set_last_session(report_, arena_->trace.sizes);
  });
}

void Session::add_ranges(const libkineto::getLinkedActivityCallback& linked) {
  if (!making_) return;
  const Stopwatch watch(&reading_ns_);
  if (want_ranges_) {
    const HostRanges host = host_ranges(arena_->capture_result.threads(), linked);
    making_->add_ranges(host.ranges, host.backward);
  }
  making_.reset();
  arena_->capture_result.free_op_events();
}

std::vector<std::string> Session::errors() {
  std::vector<std::string> codes;
  for (const trace::Diagnostic& diagnostic : diagnostics_.all()) codes.emplace_back(diagnostics::name(diagnostic.code));
  return codes;
}

void Session::processTrace(libkineto::ActivityLogger& logger) {
  processTrace(logger, [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; }, 0, 0);
}

void Session::processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                           int64_t end_ns) {
  // Kineto took the time of its `Record Window End` before it stopped this session: nothing of ours is to be later.
  if (end_ns > options_.window_begin) options_.window_end = std::min(options_.window_end, end_ns);
  guarded("pass the events to Kineto", [&] {
    make();
    add_ranges(linked);
    const Stopwatch watch(&handing_over_ns_);
    hand_over(logger, linked);
  });
  Plugin& plugin = Plugin::get();
  if (arena_ != nullptr) {
    plugin.history.set_last_cost({arena_->trace.records_read, reading_ns_, handing_over_ns_, arena_->chunk_bytes()});
  }
  plugin.warnings.warn(diagnostics_);
}

void Session::hand_over(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked) {
  trace::Trace& trace = arena_->trace;
  const int64_t time = options_.window_begin;
  for (size_t i = 1; i < trace.devices.size(); ++i) logger.handleDeviceInfo(device_info(trace.devices[i]), time);
  // An op is looked up once, and only if work was launched from it. Only ids that PyTorch pushed are looked up: to
  // Kineto, 0 is an id like any other. An op that was looked up has its activity in place of its id.
  std::vector<bool> looked_up(trace.ops.size());
  std::vector<char> shown(trace.tracks.size());
  arena_->each_activity([&](Activity& activity) {
    trace::Event& event = activity.event;
    if (event.has(trace::Event::kExcluded)) return;
    if (event.link != 0) {
      const size_t index = event.link - 1;
      uint64_t& op = trace.ops[index];
      if (!looked_up[index]) {
        looked_up[index] = true;
        op = reinterpret_cast<uint64_t>(linked(static_cast<int32_t>(op)));
      }
      event.link = op;
    }
    shown[event.track] = 1;
    logger.handleActivity(activity);
  });
  if (want_ranges_) {
    arena_->ranges.reserve(trace.ranges.size());
    for (const trace::DeviceRange& range : trace.ranges) {
      const auto* annotation = linked(static_cast<int32_t>(range.range_id));
      if (annotation == nullptr) continue;
      shown[range.track] = 1;
      logger.handleActivity(arena_->ranges.emplace_back(range, trace.tracks[range.track], annotation));
    }
  }
  // Tracks whose work was all outside of the window, or went to another one in the end, would be names of nothing.
  for (size_t i = 0; i < trace.tracks.size(); ++i) {
    const trace::Track& track = trace.tracks[i];
    if (shown[i] == 0 || track.name.empty()) continue;
    logger.handleResourceInfo(resource_info(track), time);
  }
  std::vector<uint64_t>().swap(trace.ops);
}

std::unique_ptr<libkineto::DeviceInfo> Session::getDeviceInfo() {
  if (arena_ == nullptr || arena_->trace.devices.empty()) return nullptr;
  return std::make_unique<libkineto::DeviceInfo>(device_info(arena_->trace.devices.front()));
}

std::vector<libkineto::ResourceInfo> Session::getResourceInfos() { return {}; }

std::unique_ptr<libkineto::CpuTraceBuffer> Session::getTraceBuffer() {
  if (arena_ == nullptr) return nullptr;
  auto buffer = std::make_unique<libkineto::CpuTraceBuffer>();
  // In the file, times are microseconds as floating-point numbers: a reader's sum of begin and duration may be a
  // nanosecond more, and would lie after the end of the window.
  const int64_t end = std::max(options_.window_begin, options_.window_end - 2);
  buffer->span = libkineto::TraceSpan(options_.window_begin, end, "AIU");
  buffer->gpuOpCount = 0;
  buffer->activities.push_back(std::move(arena_));
  return buffer;
}

std::string Session::getDeviceProperties() {
  // Exactly one, whatever the number of cards: acelyzer stops at two, and takes a trace without any for another
  // dialect.
  JsonObject json;
  json.number("id", int64_t{0}).text("type", "AIU").text("name", "AIU").text("core", "PT Array");
  if (const uint64_t memory = in_child() ? 0 : device_memory(); memory != 0) json.number("totalGlobalMem", memory);
  return json.str();
}

std::unordered_map<std::string, std::string> Session::getMetadata() {
  guarded("describe the session", [&] { make(); });
  if (report_.empty()) return {};
  return {{"kineto_spyre", report_}};
}

void Session::pushCorrelationId(uint64_t id) { capture::push_op(id); }
void Session::popCorrelationId() { capture::pop_op(); }
void Session::pushUserCorrelationId(uint64_t id) { capture::push_range(id); }
void Session::popUserCorrelationId() { capture::pop_range(); }

}  // namespace kineto_spyre::kineto
