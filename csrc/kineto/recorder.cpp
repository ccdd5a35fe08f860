#include "kineto/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "capture/clock.h"
#include "capture/op_ring.h"
#include "kineto/op_names.h"
#include "kineto/plugin.h"
#include "kineto/session_report.h"
#include "trace/text.h"
#include "trace/trace.h"
#include "writer/writer.h"

namespace kineto_spyre::kineto {
namespace {

using trace::Code;
using trace::JsonObject;

constexpr int64_t kSecond = 1'000'000'000;
// A record comes after what it tells of: what is asked for is kept a little longer.
constexpr int64_t kLonger = 2 * kSecond;

std::vector<WantedKind> wanted_kinds() {
  return {{AIUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls"},
          {AIUPTI_ACTIVITY_KIND_DRIVER, "driver calls"},
          {AIUPTI_ACTIVITY_KIND_CMPT, "kernels"},
          {AIUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
          {AIUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices"},
          {AIUPTI_ACTIVITY_KIND_MEMSET, "fills"},
          {AIUPTI_ACTIVITY_KIND_MEMORY, "allocations"}};
}

// A file under another name until commit().
class NewFile final : public writer::Sink {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), hidden_(path_ + ".unfinished-" + std::to_string(getpid())) {
    file_ = open(hidden_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) fail("opened");
  }
  ~NewFile() override {
    if (file_ >= 0) close(file_);
    if (!hidden_.empty()) unlink(hidden_.c_str());
  }
  void write(const char* data, size_t size) override {
    while (size != 0) {
      const ssize_t done = ::write(file_, data, size);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("written");
      data += done;
      size -= static_cast<size_t>(done);
      bytes_ += static_cast<uint64_t>(done);
    }
  }
  void commit() {
    if (close(std::exchange(file_, -1)) != 0) fail("written");
    if (rename(hidden_.c_str(), path_.c_str()) != 0) fail("given its name");
    hidden_.clear();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(path_ + " can't be " + what + ": " + std::strerror(errno));
  }

  std::string path_, hidden_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace

// What one dump is made of.
struct Recorder::Making {
  int64_t end = 0;
  trace::Diagnostics diagnostics;
  SessionFacts facts;
  capture::RingStatus ring;
  capture::op_ring::Status ops_status;
  capture::CaptureResult records;
  capture::op_ring::Snapshot ops;
  trace::Options options;
  trace::PlainEventStore events;
  trace::Trace trace;

  // Since when everything is there, but for what is counted.
  void set_window(const Request& request) {
    int64_t begin = std::max({ring.whole_from_ns, ops.whole_from_ns, request.begin_ns});
    if (request.seconds > 0) begin = std::max(begin, end - static_cast<int64_t>(request.seconds * 1e9));
    options.window_begin = facts.window_begin = std::min(begin, end);
    options.window_end = facts.window_end = end;
    options.process_id = static_cast<uint32_t>(getpid());
  }

  // What was lost before the window is not this dump's.
  void count_drops() {
    if (ring.last_drop_ns >= options.window_begin) {
      facts.drops.requests_without_buffer = ring.requests_without_buffer;
      facts.drops.records_dropped = ring.records_dropped;
      facts.drops.uncounted_buffers = ring.uncounted_buffers;
      facts.dropped += ring.records_dropped;
    }
    if (ops_status.last_drop_ns >= options.window_begin) facts.drops.op_events_dropped = ops_status.dropped;
  }

  void make(const aiupti::Library& library) {
    const std::lock_guard lock(iteration_mutex);
    options.emulated = library.emulated;
    trace::TraceMaking making(trace::Input{records.buffers(), ops.threads, library.next_record}, options, &events,
                              &trace);
    std::vector<trace::HostRange> ranges;
    for (size_t i = 0; i < ops.slices.size(); ++i) {
      const capture::op_ring::Slice& slice = ops.slices[i];
      if (slice.range) ranges.push_back({i + 1, slice.tid, slice.begin, slice.end});
    }
    making.add_ranges(ranges, {});
  }
};

Recorder& Recorder::get() {
  static auto* const recorder = new Recorder;  // libaiupti's threads may outlive static destruction
  return *recorder;
}

bool Recorder::running() const { return capture::ring_is_running(); }

std::string Recorder::start(double seconds, double mib) {
  const std::lock_guard lock(mutex_);
  Plugin& plugin = Plugin::get();
  trace::Diagnostics diagnostics;
  settings_ = plugin.settings.read();
  diagnostics.add(settings_.problems);
  if (LibraryControl::is_hanging()) {
    diagnostics.add(Code::kFlushStillHangs);
    return diagnostics.json();
  }
  library_ = plugin.library.open(settings_, diagnostics);
  if (library_ == nullptr) return diagnostics.json();
  capture::RingConfig config;
  config.budget_bytes = static_cast<size_t>(mib * 1024 * 1024 * 0.8);
  config.keep_ns = static_cast<int64_t>(seconds * 1e9) + kLonger;
  config.count_records = aiupti::count_records;
  std::string error;
  const auto op_bytes = static_cast<size_t>(mib * 1024 * 1024 * 0.2);
  if (!capture::start_ring(config, &error) || !capture::op_ring::start(op_bytes, config.keep_ns, &error)) {
    capture::stop_ring();
    diagnostics.add(Code::kMemoryNotReserved, 1,
                    JsonObject().number("mib", static_cast<uint64_t>(mib)).text("reason", error));
    return diagnostics.json();
  }
  std::error_code unresolved;
  const std::string file = std::filesystem::canonical(library_->path, unresolved).string();
  control_.emplace(*library_, std::ranges::find(settings_.flush_only_before_disable, file) ==
                                  settings_.flush_only_before_disable.end());
  if (!control_->register_callbacks(diagnostics)) {
    capture::op_ring::stop();
    capture::stop_ring();
    return diagnostics.json();
  }
  control_->enable(wanted_kinds(), diagnostics);
  control_->open_window(diagnostics);
  op_names::record(true);
  seconds_ = seconds;
  process_ = getpid();
  return diagnostics.json();
}

void Recorder::stop() {
  const std::lock_guard lock(mutex_);
  if (!running() || !control_) return;
  op_names::record(false);
  capture::op_ring::stop();
  capture::stop_lending();  // what a flush gives back is replaced by buffers of a session, if there is one
  trace::Diagnostics diagnostics;
  control_->end(settings_.flush_timeout_ms, diagnostics);
  capture::stop_ring();
  control_.reset();
}

std::string Recorder::dump(const Request& request) {
  const std::lock_guard lock(mutex_);
  try {
    if (!running() || !control_) throw std::runtime_error("The flight recorder is not running.");
    Making making;
    making.end = capture::unix_ns();
    control_->flush(settings_.flush_timeout_ms, making.diagnostics);
    making.records = capture::snapshot_ring();
    making.ops = capture::op_ring::snapshot();
    making.ring = capture::ring_status();
    making.ops_status = capture::op_ring::status();
    making.facts.runtime = Plugin::get().library.runtime();
    making.facts.library = library_->path;
    making.facts.recorded = true;
    making.options.align_clocks = settings_.align_clocks;
    making.facts.dropped = control_->dropped(making.diagnostics);
    control_->open_window(making.diagnostics);
    making.set_window(request);
    making.count_drops();
    making.make(*library_);
    return write(request, making);
  } catch (const std::exception& error) {
    return JsonObject().text("error", error.what()).str();
  }
}

std::string Recorder::write(const Request& request, Making& making) {
  trace::Trace& trace = making.trace;
  diagnose(making.facts, trace, making.diagnostics);
  const std::vector<std::string> names = op_names::all();
  const auto window = [&](int64_t ns) {
    return std::clamp(ns, making.options.window_begin, making.options.window_end);
  };
  writer::Document document;
  std::vector<writer::HostSlice> all;
  std::vector<writer::HostSlice> shown;
  all.reserve(making.ops.slices.size());
  for (size_t i = 0; i < making.ops.slices.size(); ++i) {
    const capture::op_ring::Slice& slice = making.ops.slices[i];
    const std::string_view name = slice.range ? making.ops.names[slice.id] : names[slice.id];
    // As PyTorch: what lasts beyond the window is cut at its ends.
    all.push_back({window(slice.begin), window(slice.end), slice.range ? 0 : i + 1, name, slice.tid, slice.range});
    if (slice.end >= making.options.window_begin && slice.begin <= making.options.window_end)
      shown.push_back(all.back());
  }
  for (const trace::DeviceRange& range : trace.ranges) {
    document.range_names.push_back(making.ops.names[making.ops.slices[range.range_id - 1].id]);
  }
  JsonObject recording;
  recording.text("reason", request.reason).number("kept_seconds", seconds_);
  recording.number("whole_from_ns", making.options.window_begin).number("recycled_early", making.ring.recycled_early);
  std::string metadata = report(making.facts, trace, making.diagnostics);
  metadata.insert(metadata.size() - 1, ", \"recording\": " + recording.str());
  document.events = &making.events;
  document.trace = &trace;
  document.host = shown;
  document.all_ops = all;
  document.process = getpid();
  document.process_name = "python";
  document.window_begin = making.options.window_begin;
  document.window_end = making.options.window_end;
  document.metadata = std::move(metadata);
  document.device_properties = R"([{"id": 0, "type": "AIU", "name": "AIU", "core": "PT Array"}])";
  NewFile file(request.path);
  const writer::Written written =
      request.perfetto ? writer::write_perfetto(document, file) : writer::write_json(document, file);
  file.commit();
  ++dumps_;
  JsonObject json;
  json.number("slices", written.slices).number("arrows", written.arrows).number("bytes", file.bytes());
  json.number("kernels", trace.captured[static_cast<size_t>(trace::Category::kKernel)]);
  json.number("records", trace.records_read).number("begin_ns", making.options.window_begin);
  json.number("end_ns", making.options.window_end).boolean("complete", making.diagnostics.complete());
  json.raw("diagnostics", making.diagnostics.json());
  return json.str();
}

std::string Recorder::status() const {
  const capture::RingStatus ring = capture::ring_status();
  const capture::op_ring::Status ops = capture::op_ring::status();
  JsonObject json;
  json.boolean("running", ring.running);
  if (!ring.running) return json.str();
  json.number("whole_from_ns", std::max(ring.whole_from_ns, ops.whole_from_ns));
  json.number("kept_bytes", uint64_t{ring.kept_bytes + ops.kept_bytes}).number("kept_buffers", ring.kept_buffers);
  json.number("recycled_early", ring.recycled_early).number("records_dropped", ring.records_dropped);
  json.number("requests_without_buffer", ring.requests_without_buffer);
  json.number("uncounted_buffers", ring.uncounted_buffers).number("op_events_dropped", ops.dropped);
  return json.str();
}

}  // namespace kineto_spyre::kineto
