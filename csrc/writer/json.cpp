// The JSON that Kineto writes: the same keys, units, categories and arguments, so that what reads Kineto's reads this.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <string>

#include "trace/event_text.h"
#include "trace/text.h"
#include "writer/layout.h"
#include "writer/output.h"

namespace kineto_spyre::writer {
namespace {

using trace::Category;
using trace::Event;

constexpr int64_t kDeviceSortBase = 5'000'000;  // below all host processes, as Kineto sorts devices

std::string_view category_of(const Event& event) {
  switch (event.category) {
    case Category::kMemcpy:
      return "gpu_memcpy";
    case Category::kMemset:
      return "gpu_memset";
    case Category::kRuntime:
      return "privateuse1_runtime";
    case Category::kDriver:
    case Category::kMemory:
      return "privateuse1_driver";
    default:
      return "kernel";
  }
}

class Json {
 public:
  Json(const Document& document, Sink& sink) : document_(document), out_(&sink) {}

  Written write() {
    const std::vector<Line> lines = lines_of(document_);
    base_ = document_.window_begin;
    for (const Line& line : lines) {
      if (!line.slices.empty()) base_ = std::min(base_, line.slices.front().begin);
    }
    text_ = "{\n\"schemaVersion\": 1,\n\"deviceProperties\": " + document_.device_properties;
    if (!document_.metadata.empty()) text_ += ",\n\"kineto_spyre\": " + document_.metadata;
    text_ +=
        ",\n\"baseTimeNanoseconds\": " + std::to_string(base_) + ",\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [";
    names(lines);
    for (const Line& line : lines) {
      for (const Slice& slice : line.slices) write_slice(line, slice);
    }
    window();
    text_ += "\n],\n\"traceName\": \"kineto_spyre recording\"\n}\n";
    flush();
    out_.flush();
    return written_;
  }

 private:
  void flush() {
    out_.text(text_);
    text_.clear();
  }

  void number(int64_t value) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }
  // Microseconds.
  void time(int64_t ns) {
    number(ns / 1000);
    const auto rest = static_cast<int>(ns % 1000);
    text_ += '.';
    text_ += static_cast<char>('0' + rest / 100);
    text_ += static_cast<char>('0' + rest / 10 % 10);
    text_ += static_cast<char>('0' + rest % 10);
  }

  void begin(std::string_view phase, int64_t process, int64_t tid, int64_t ns) {
    text_ += first_ ? "\n{\"ph\": \"" : ",\n{\"ph\": \"";
    first_ = false;
    text_.append(phase).append("\", \"pid\": ");
    number(process);
    text_ += ", \"tid\": ";
    number(tid);
    text_ += ", \"ts\": ";
    time(ns - base_);
  }

  void name(std::string_view what, int64_t process, int64_t tid, std::string_view key, std::string_view value) {
    begin("M", process, tid, base_);
    text_.append(", \"name\": \"").append(what).append("\", \"args\": {\"").append(key).append("\": ").append(value);
    text_ += "}}";
  }

  void names(const std::vector<Line>& lines) {
    const auto quoted = [](std::string_view text) {
      return std::string("\"").append(trace::safe_text(text)).append("\"");
    };
    std::map<int64_t, bool> processes{{document_.process, true}};
    for (const Line& line : lines) processes.try_emplace(line.process, line.host);
    for (const auto& [process, host] : processes) {
      name("process_name", process, 0, "name", quoted(host ? std::string_view(document_.process_name) : "Spyre"));
      name("process_labels", process, 0, "labels", quoted(host ? "CPU" : "AIU " + std::to_string(process)));
      name("process_sort_index", process, 0, "sort_index", std::to_string(host ? process : kDeviceSortBase + process));
    }
    for (const Line& line : lines) {
      std::string shown = line.name.empty() ? "thread " + std::to_string(line.tid) : line.name;
      name("thread_name", line.process, line.tid, "name", quoted(shown));
      name("thread_sort_index", line.process, line.tid, "sort_index", std::to_string(line.sort));
    }
  }

  void write_slice(const Line& line, const Slice& slice) {
    begin("X", line.process, line.tid, slice.begin);
    text_ += ", \"dur\": ";
    time(std::max<int64_t>(0, slice.end - slice.begin));
    ++written_.slices;
    if (slice.event != nullptr) {
      event(line, slice);
    } else if (slice.host != nullptr) {
      title(slice.host->range ? "user_annotation" : "cpu_op", trace::safe_text(slice.host->name));
      if (slice.host->external_id != 0) {
        text_ += "\"External id\": ";
        number(static_cast<int64_t>(slice.host->external_id));
      }
      text_ += "}}";
    } else {
      const auto index = static_cast<size_t>(slice.range - document_.trace->ranges.data());
      title("gpu_user_annotation", trace::safe_text(document_.range_names[index]));
      text_.append(R"("stream": "-)").append(slice.range->level, '0').append(R"(1"}})");
    }
    if (text_.size() > size_t{64} << 10) flush();
  }

  void title(std::string_view category, std::string_view name) {
    text_.append(R"(, "cat": ")").append(category).append(R"(", "name": ")").append(name).append(R"(", "args": {)");
  }

  void event(const Line& line, const Slice& slice) {
    const Event& event = *slice.event;
    title(category_of(event), trace::name_of(event));
    text_ += trace::metadata_of(event, document_.trace->tracks[event.track]);
    if (const HostSlice* op = op_of(document_, event)) {
      text_ += ", \"External id\": ";
      number(static_cast<int64_t>(op->external_id));
    }
    text_ += "}}";
    if (!event.has(Event::kFlow)) return;
    begin(event.is_call() ? "s" : "f", line.process, line.tid, slice.begin);
    text_ += ", \"id\": ";
    number(event.id);
    text_ += ", \"cat\": \"ac2g\", \"name\": \"ac2g\"";
    text_ += event.is_call() ? "}" : ", \"bp\": \"e\"}";
    written_.arrows += event.is_call() ? 0 : 1;
  }

  void window() {
    text_ += R"x(,
{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": )x";
    time(document_.window_begin - base_);
    text_ += ", \"dur\": ";
    time(document_.window_end - document_.window_begin);
    text_ += R"(, "args": {"Op count": 0}},
{"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": )";
    time(document_.window_begin - base_);
    text_ += R"(},
{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": )";
    time(document_.window_end - base_);
    text_ += '}';
  }

  const Document& document_;
  Output out_;
  Written written_;
  int64_t base_ = 0;
  std::string text_;
  bool first_ = true;
};

}  // namespace

Written write_json(const Document& document, Sink& sink) { return Json(document, sink).write(); }

}  // namespace kineto_spyre::writer
