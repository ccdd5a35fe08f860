#include "kineto/session.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <output_base.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <type_traits>
#include <utility>

#include "trace/text.h"

namespace kineto_spyre::kineto {
namespace {

using libkineto::ActivityType;
using trace::Category;
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

std::string code(AIUpti_ResultTypes result) { return " failed with code " + std::to_string(result); }

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
    try {
      f();
    } catch (const std::exception& error) {
      warnings_.push_back(std::string("kineto_spyre could not ") + doing + ": " + error.what() + ".");
    } catch (...) {
      warnings_.push_back(std::string("kineto_spyre could not ") + doing + ".");
    }
  } catch (...) {  // no memory for the sentence either
  }
}

Session::Session(const std::set<ActivityType>& types, int64_t kineto_buffer_mb)
    : process_(getpid()), want_ranges_(types.contains(ActivityType::GPU_USER_ANNOTATION)) {
  options_.process_id = static_cast<uint32_t>(process_);
  const auto want = [&](Category category, ActivityType type) {
    options_.wanted[static_cast<size_t>(category)] = types.contains(type);
  };
  want(Category::kKernel, ActivityType::CONCURRENT_KERNEL);
  want(Category::kMemcpy, ActivityType::GPU_MEMCPY);
  want(Category::kMemset, ActivityType::GPU_MEMSET);
  want(Category::kMemory, ActivityType::GPU_MEMSET);
  want(Category::kRuntime, ActivityType::PRIVATEUSE1_RUNTIME);
  want(Category::kDriver, ActivityType::PRIVATEUSE1_DRIVER);
  guarded("prepare to record", [&] { arm(kineto_buffer_mb); });
}

Session::~Session() {
  over();
  if (state_ != State::kArmed && state_ != State::kRecording) return;
  // Dropped without a stop: the program ended in the middle, or PyTorch gave the profile up.
  guarded("end a session that was given up", [&] {
    if (in_child()) return;
    disable_kinds();
    std::string error;
    Plugin::get().flush(*library_, environment_.flush_timeout_ms, &error);
    capture::abandon();
  });
}

bool Session::in_child() const { return getpid() != process_; }

void Session::arm(int64_t kineto_buffer_mb) {
  Plugin& plugin = Plugin::get();
  plugin.session_began();
  live_ = true;
  environment_ = read_environment();
  warnings_ = environment_.warnings;
  options_.align_clocks = environment_.align_clocks;
  if (std::string notice = plugin.foreign_factory_notice(); !notice.empty()) warnings_.push_back(std::move(notice));

  std::string error;
  if (plugin.flush_hangs()) {
    warnings_.push_back(
        "libaiupti still hangs in the flush of an earlier session, so this one records no device "
        "activity. Restart the program.");
    return;
  }
  library_ = plugin.library(&error);
  if (library_ == nullptr) {
    warnings_.push_back(error);
    return;
  }
  if (!library_->notice.empty()) warnings_.push_back(library_->notice);

  std::string notice;
  capture::Config config = capture::make_config(std::getenv("KINETO_SPYRE_BUFFER_MB"),
                                                static_cast<size_t>(std::max<int64_t>(0, kineto_buffer_mb)), &notice);
  config.count_records = aiupti::count_records;
  if (!notice.empty()) warnings_.push_back(std::move(notice));
  if (!capture::prepare(config, &error)) {
    warnings_.push_back(error);
    return;
  }
  state_ = State::kArmed;
  if (const auto result = library_->register_callbacks(capture::on_buffer_requested, capture::on_buffer_completed);
      result != AIUPTI_SUCCESS) {
    warnings_.push_back("aiuptiActivityRegisterCallbacks" + code(result) + ", so no device activity is recorded.");
    capture::abandon();
    state_ = State::kOff;
    return;
  }
  enable_kinds();
}

void Session::enable_kinds() {
  struct Wanted {
    AIUpti_ActivityKind kind;
    const char* name;
    bool wanted;
  };
  const auto wanted = [&](Category category) { return options_.wanted[static_cast<size_t>(category)]; };
  // Runtime calls always: device work finds its op through the call that launched it.
  const Wanted kinds[] = {{AIUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", true},
                          {AIUPTI_ACTIVITY_KIND_DRIVER, "driver calls", wanted(Category::kDriver)},
                          {AIUPTI_ACTIVITY_KIND_CMPT, "kernels", wanted(Category::kKernel)},
                          {AIUPTI_ACTIVITY_KIND_MEMCPY, "copies", wanted(Category::kMemcpy)},
                          {AIUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", wanted(Category::kMemcpy)},
                          {AIUPTI_ACTIVITY_KIND_MEMSET, "fills", wanted(Category::kMemset)},
                          {AIUPTI_ACTIVITY_KIND_MEMORY, "allocations", wanted(Category::kMemory)}};
  std::string missing;
  for (const Wanted& kind : kinds) {
    if (!kind.wanted) continue;
    if (const auto result = library_->enable(kind.kind); result == AIUPTI_SUCCESS) {
      enabled_.push_back(kind.kind);
    } else {
      missing += (missing.empty() ? "" : ", ") + std::string(kind.name) + " (code " + std::to_string(result) + ")";
    }
  }
  if (!missing.empty()) {
    warnings_.push_back("aiuptiActivityEnable failed, so the trace has none of these: " + missing + ".");
  }
}

void Session::disable_kinds() {
  std::string failed;
  for (const AIUpti_ActivityKind kind : enabled_) {
    if (const auto result = library_->disable(kind); result != AIUPTI_SUCCESS) {
      failed += (failed.empty() ? "" : ", ") + std::to_string(kind) + " (code " + std::to_string(result) + ")";
    }
  }
  enabled_.clear();
  if (!failed.empty()) {
    warnings_.push_back("aiuptiActivityDisable failed for the kinds " + failed + ": libaiupti goes on recording them.");
  }
}

uint64_t Session::dropped() {
  size_t count = 0;
  if (const auto result = library_->dropped_records(&count); result != AIUPTI_SUCCESS) {
    warnings_.push_back("aiuptiActivityGetNumDroppedRecords" + code(result) +
                        ", so it is not known how many records were lost.");
    return 0;
  }
  return count;
}

void Session::start() {
  if (state_ == State::kArmed) {
    guarded("begin to record", [&] {
      // Whether the library's count starts again when it is read is not documented: reading twice tells.
      const uint64_t first = dropped();
      dropped_before_ = dropped();
      dropped_resets_ = dropped_before_ < first;
      capture::open_window();
      state_ = State::kRecording;
    });
  }
  options_.window_begin = now_ns();
}

void Session::over() {
  if (std::exchange(live_, false)) Plugin::get().session_over();
}

void Session::stop() {
  options_.window_end = now_ns();
  over();
  if (state_ != State::kRecording) return;
  if (in_child()) {
    guarded("say so", [&] {
      warnings_.push_back(
          "This process was forked from a profiled one: what its parent records stays with the parent.");
    });
    state_ = State::kOff;
    return;
  }
  state_ = State::kStopped;
  // Each for itself: whatever fails, the capture must come to its end, or no other session could begin.
  guarded("end the recording", [&] {
    capture::close_window();
    disable_kinds();
  });
  guarded("have libaiupti hand over its records", [&] {
    std::string error;
    Plugin::get().flush(*library_, environment_.flush_timeout_ms, &error);
    if (!error.empty()) warnings_.push_back(error);
    const uint64_t after = dropped();
    dropped_ = dropped_resets_ || after < dropped_before_ ? after : after - dropped_before_;
  });
  guarded("take what was recorded", [&] {
    capture_result_ = capture::take_result();
    drops_ = capture_result_.drops();
    dropped_ += drops_.records_dropped;
  });
}

void Session::make() {
  if (state_ == State::kMade) return;
  const Stopwatch watch(&reading_ns_);
  const bool recorded = state_ == State::kStopped;
  state_ = State::kMade;
  auto arena = std::make_unique<Arena>();
  guarded("read what was recorded", [&] {
    if (!recorded) return;
    arena->capture_result = std::move(capture_result_);
    arena->trace = trace::make_trace({arena->capture_result.buffers(), arena->capture_result.threads(), library_->next_record},
                                     options_, *arena);
    arena->capture_result.free_op_events();
  });
  arena_ = std::move(arena);
  guarded("report what was recorded", [&] {
    if (dropped_ != 0 || drops_.requests_without_buffer != 0) {
      warnings_.push_back(std::to_string(dropped_) +
                          " record(s) were lost, for the buffers were full. "
                          "KINETO_SPYRE_BUFFER_MB sets how much memory a session may use.");
    }
    if (drops_.op_events_dropped != 0) {
      warnings_.push_back(std::to_string(drops_.op_events_dropped) +
                          " op edge(s) were lost for want of room, so some device "
                          "work has no op. KINETO_SPYRE_BUFFER_MB sets how much memory a session may use.");
    }
    if (drops_.unknown_buffers + drops_.late_completions + drops_.oversized != 0) {
      warnings_.push_back("libaiupti gave back " + std::to_string(drops_.unknown_buffers) + " unknown buffer(s), " +
                          std::to_string(drops_.late_completions) + " too late and " +
                          std::to_string(drops_.oversized) + " with more in them than they hold.");
    }
    if (drops_.buffers_not_returned != 0) {
      warnings_.push_back("libaiupti did not give back " + std::to_string(drops_.buffers_not_returned) +
                          " buffer(s); the records in them are missing.");
    }
    std::ranges::copy(arena_->trace.warnings, std::back_inserter(warnings_));
    report_ = report();
    Plugin::get().set_last_session(report_, arena_->trace.sizes);
  });
}

std::string Session::report() const {
  const trace::Trace& trace = arena_->trace;
  JsonObject captured;
  for (size_t i = 0; i < trace::kCategories; ++i) {
    captured.number(trace::category_name(static_cast<Category>(i)), trace.captured[i]);
  }
  JsonObject invalid;
  for (size_t i = 0; i < trace::kInvalidReasons; ++i) {
    if (trace.invalid[i] != 0) invalid.number(trace::invalid_reason_name(static_cast<trace::InvalidReason>(i)), trace.invalid[i]);
  }
  JsonObject clocks;
  for (const trace::Clock& clock : trace.clocks) {
    JsonObject one;
    one.boolean("applied", clock.applied).number("offset_ns", clock.offset_ns).number("drift_ppm", clock.drift_ppm);
    one.number("reference_ns", clock.reference_ns).number("pairs", clock.pairs);
    one.number("earliest_ns", clock.earliest_ns);
    if (clock.uncertainty_ns >= 0) one.number("uncertainty_ns", clock.uncertainty_ns);
    one.text("reason", clock.reason);
    clocks.raw(std::to_string(clock.device), one.str());
  }
  std::string devices;
  for (uint32_t device : trace.devices) {
    if (!devices.empty()) devices += ", ";
    devices += std::to_string(device);
  }
  JsonObject records;
  for (size_t i = 0; i < aiupti::kKinds; ++i) {
    if (trace.sizes[i].seen == 0) continue;
    JsonObject sizes;
    sizes.number("built", uint64_t{trace.sizes[i].built}).number("seen", uint64_t{trace.sizes[i].seen});
    records.raw(aiupti::kind_name(static_cast<aiupti::Kind>(i)), sizes.str());
  }
  std::string warnings;
  for (const std::string& warning : warnings_) {
    warnings += warnings.empty() ? "\"" : ", \"";
    warnings += trace::safe_text(warning);
    warnings += '"';
  }
  JsonObject versions;
  versions.text("kineto_spyre", KINETO_SPYRE_VERSION).text("built for torch", KINETO_SPYRE_TORCH);
  versions.text("libaiupti header", KINETO_SPYRE_AIUPTI_HEADER);
  JsonObject json;
  json.raw("versions", versions.str()).text("runtime", Plugin::get().runtime());
  if (library_ != nullptr) {
    json.text("library", library_->path);
  } else {
    json.raw("library", "null");
  }
  json.number("records_read", trace.records_read).raw("captured", captured.str()).raw("invalid", invalid.str());
  json.number("dropped", dropped_).number("out_of_window", trace.out_of_window).number("not_requested", trace.not_requested);
  json.number("overlaps", trace.overlaps).number("before_launch", trace.early).number("unlinked", trace.unlinked);
  json.number("long_kernels", trace.long_kernels).number("unknown_calls", trace.unknown_calls);
  json.number("unfinished_reads", trace.unfinished_reads).number("op_events_dropped", drops_.op_events_dropped);
  json.number("late_buffers", drops_.late_completions).number("unknown_buffers", drops_.unknown_buffers);
  json.raw("clock", clocks.str()).raw("devices", '[' + devices + ']').raw("records", records.str());
  json.number("window_begin_ns", options_.window_begin).number("window_end_ns", options_.window_end);
  json.raw("warnings", '[' + warnings + ']');
  return json.str();
}

std::vector<std::string> Session::errors() { return warnings_; }

void Session::processTrace(libkineto::ActivityLogger& logger) {
  processTrace(logger, [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; }, 0, 0);
}

void Session::processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                           int64_t) {
  guarded("hand its events to Kineto", [&] {
    make();
    const Stopwatch watch(&handing_over_ns_);
    trace::Trace& trace = arena_->trace;
    const int64_t time = options_.window_begin;
    for (size_t i = 1; i < trace.devices.size(); ++i) logger.handleDeviceInfo(device_info(trace.devices[i]), time);
    // An op is looked up once, and only if work was launched from it. Only ids that PyTorch pushed are looked up: to
    // Kineto, 0 is an id like any other. An op that was looked up has its activity in place of its id.
    std::vector<bool> looked_up(trace.ops.size());
    std::vector<char> shown(trace.tracks.size());
    arena_->each_activity([&](Activity& activity) {
      trace::Item& item = activity.item;
      if (item.has(trace::Item::kExcluded)) return;
      if (item.link != 0) {
        const size_t index = item.link - 1;
        uint64_t& op = trace.ops[index];
        if (!looked_up[index]) {
          looked_up[index] = true;
          op = reinterpret_cast<uint64_t>(linked(static_cast<int32_t>(op)));
        }
        item.link = op;
      }
      shown[item.track] = 1;
      logger.handleActivity(activity);
    });
    if (want_ranges_) {
      arena_->ranges.reserve(trace.spans.size());
      for (const trace::Span& span : trace.spans) {
        const auto* annotation = linked(static_cast<int32_t>(span.range_id));
        if (annotation == nullptr) continue;
        shown[span.track] = 1;
        logger.handleActivity(arena_->ranges.emplace_back(span, trace.tracks[span.track], annotation));
      }
    }
    // Tracks whose work was all outside of the window, or went to another one in the end, would be names of nothing.
    for (size_t i = 0; i < trace.tracks.size(); ++i) {
      const trace::Track& track = trace.tracks[i];
      if (shown[i] == 0 || track.name.empty()) continue;
      logger.handleResourceInfo(resource_info(track), time);
    }
    std::vector<uint64_t>().swap(trace.ops);
  });
  if (arena_ != nullptr) {
    Plugin::get().set_last_cost({arena_->trace.records_read, reading_ns_, handing_over_ns_, arena_->chunk_bytes()});
  }
  for (const std::string& warning : warnings_) Plugin::get().warn(warning);
}

std::unique_ptr<libkineto::DeviceInfo> Session::getDeviceInfo() {
  if (arena_ == nullptr || arena_->trace.devices.empty()) return nullptr;
  return std::make_unique<libkineto::DeviceInfo>(device_info(arena_->trace.devices.front()));
}

std::vector<libkineto::ResourceInfo> Session::getResourceInfos() { return {}; }

std::unique_ptr<libkineto::CpuTraceBuffer> Session::getTraceBuffer() {
  if (arena_ == nullptr) return nullptr;
  auto buffer = std::make_unique<libkineto::CpuTraceBuffer>();
  buffer->span = libkineto::TraceSpan(options_.window_begin, options_.window_end, "AIU");
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
