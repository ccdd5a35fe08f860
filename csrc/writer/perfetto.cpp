// Perfetto's protobuf. One sequence of packets, host threads first:
//
//   clock     the file's own clock begins at the first slice, beside BOOTTIME and REALTIME
//   tracks    a process with its threads; a device as a group of named tracks. Slices that cross another one of their
//             track stand on a further track beside it
//   slices    begin and end, with category, name and the arguments that join events; names are written once
//   flows     an id for each pair of a launch and a piece of its work, so that two pieces are two arrows, no chain
//   metadata  an instant on the process, whose argument kineto_spyre is the JSON object
#include <algorithm>
#include <deque>
#include <string>
#include <unordered_map>

#include "aiupti/cbid.h"
#include "trace/event_text.h"
#include "trace/text.h"
#include "writer/layout.h"
#include "writer/output.h"
#include "writer/perfetto_fields.h"
#include "writer/proto.h"

namespace kineto_spyre::writer {
namespace {

using trace::Category;
using trace::Event;

enum Argument : uint64_t { kCorrelation = 1, kExternalId, kStream, kDevice, kBytesMoved, kQueued };
constexpr std::string_view kArguments[] = {"correlation", "External id", "stream", "device", "bytes", "queued"};

// Categories as Kineto's, by their interned numbers.
enum CategoryIid : uint64_t { kCpuOp = 1, kUserRange, kDeviceRange, kKernel, kMemcpy, kMemset, kRuntime, kDriver };
constexpr std::string_view kCategories[] = {
    "cpu_op",     "user_annotation", "gpu_user_annotation", "kernel",
    "gpu_memcpy", "gpu_memset",      "privateuse1_runtime", "privateuse1_driver"};

uint64_t category_of(const Event& event) {
  switch (event.category) {
    case Category::kMemcpy:
      return kMemcpy;
    case Category::kMemset:
      return kMemset;
    case Category::kRuntime:
      return kRuntime;
    case Category::kDriver:
    case Category::kMemory:
      return kDriver;
    default:
      return kKernel;
  }
}

class Perfetto {
 public:
  Perfetto(const Document& document, Sink& sink) : document_(document), out_(&sink), arrows_(document) {}

  Written write() {
    std::vector<Line> lines = lines_of(document_);
    base_ = document_.window_begin;
    for (const Line& line : lines) {
      if (!line.slices.empty()) base_ = std::min(base_, line.slices.front().begin);
    }
    head();
    metadata();
    for (const bool host : {true, false}) {
      for (const Line& line : lines) {
        if (line.host == host) write_line(line);
      }
    }
    out_.flush();
    return written_;
  }

 private:
  // A packet of at most so many bytes.
  template <class F>
  void put(size_t most, uint64_t flags, F fill) {
    Proto proto(out_.room(most + 32), most < 16'000 ? 2 : 4);
    char* const length = proto.begin(packet::kPacket);
    proto.number(packet::kSequence, 1);
    proto.number(packet::kFlags, flags);
    fill(proto);
    proto.end(length);
    out_.advance(proto.at());
  }

  // A packet with one text, which may be long.
  template <class F>
  void put_text(std::string_view text, F fill) {
    put(text.size() + 512, kNeedsState, [&](Proto& proto) { fill(proto, text); });
  }

  void head() {
    put(512, kStateCleared, [&](Proto& proto) {
      char* clocks = proto.begin(packet::kClocks);
      const auto clock = [&](uint64_t id, int64_t ns) {
        char* one = proto.begin(1);
        proto.number(1, id);
        proto.number(2, static_cast<uint64_t>(ns));
        proto.end(one);
      };
      clock(kBoot, base_);
      clock(kRealtime, base_);
      clock(kOurs, 0);
      proto.number(2, kBoot);  // the trace's primary clock
      proto.end(clocks);
      char* defaults = proto.begin(packet::kDefaults);
      proto.number(packet::kClockId, kOurs);
      proto.end(defaults);
    });
    intern(1, kCategories);
    intern(3, kArguments);
  }

  // table: a field of InternedData.
  void intern(uint32_t table, std::span<const std::string_view> texts) {
    put(2048, kNeedsState, [&](Proto& proto) {
      char* interned = proto.begin(packet::kInterned);
      for (size_t i = 0; i < texts.size(); ++i) entry(proto, table, i + 1, texts[i]);
      proto.end(interned);
    });
  }
  static void entry(Proto& proto, uint32_t table, uint64_t iid, std::string_view text) {
    char* one = proto.begin(table);
    proto.number(1, iid);
    proto.text(2, text);
    proto.end(one);
  }

  uint64_t name_iid(std::string_view name) {
    const auto at = names_.find(name);
    if (at != names_.end()) return at->second;
    const uint64_t iid = names_.size() + 1;
    kept_names_.emplace_back(name);
    names_.emplace(kept_names_.back(), iid);
    put_text(name, [&](Proto& proto, std::string_view text) {
      char* interned = proto.begin(packet::kInterned);
      entry(proto, 2, iid, text);
      proto.end(interned);
    });
    return iid;
  }

  // Of a text that is the same wherever its address is.
  uint64_t name_of_event(const Event& event) {
    if (aiupti::kind_of(event.record) == aiupti::Kind::kCompute && event.category == Category::kKernel) {
      const std::string_view name = aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(event.record));
      const auto at = raw_names_.find(name);
      if (at != raw_names_.end()) return at->second;
      return raw_names_.emplace(name, name_iid(trace::name_of(event))).first->second;
    }
    if (event.is_call()) {
      const uint32_t cbid = aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(event.record));
      if (cbid < sizeof(calls_) / sizeof(*calls_)) {
        if (calls_[cbid] == 0) calls_[cbid] = name_iid(trace::name_of(event));
        return calls_[cbid];
      }
    }
    return name_iid(trace::name_of(event));
  }

  // The program's own names; as the JSON has them.
  uint64_t name_of_host(std::string_view name) {
    const auto at = host_names_.find(name);
    if (at != host_names_.end()) return at->second;
    return host_names_.emplace(name, name_iid(trace::safe_text(name))).first->second;
  }

  uint64_t name_of_slice(const Slice& slice) {
    if (slice.event != nullptr) return name_of_event(*slice.event);
    if (slice.host != nullptr) return name_of_host(slice.host->name);
    return name_of_host(document_.range_names[static_cast<size_t>(slice.range - document_.trace->ranges.data())]);
  }

  // The tracks.

  template <class F>
  uint64_t describe(uint64_t parent, std::string_view name, F more) {
    const uint64_t uuid = ++tracks_;
    put_text(name, [&](Proto& proto, std::string_view text) {
      char* descriptor = proto.begin(packet::kTrack);
      proto.number(track::kUuid, uuid);
      if (parent != 0) proto.number(track::kParent, parent);
      if (!text.empty()) proto.text(track::kName, text);
      proto.number(track::kMerge, 2);  // tracks of one name stay apart
      more(proto);
      proto.end(descriptor);
    });
    return uuid;
  }

  uint64_t process_track() {
    if (process_ != 0) return process_;
    process_ = describe(0, "", [&](Proto& proto) {
      char* process = proto.begin(track::kProcess);
      proto.number(track::kPid, static_cast<uint64_t>(document_.process));
      proto.text(track::kProcessName, trace::safe_text(document_.process_name).substr(0, 256));
      proto.end(process);
    });
    return process_;
  }

  uint64_t device_track(int64_t device) {
    uint64_t& uuid = devices_[device];
    if (uuid == 0) {
      uuid = describe(0, "AIU " + std::to_string(device), [](Proto& proto) { proto.number(track::kChildOrdering, 3); });
    }
    return uuid;
  }

  uint64_t line_track(const Line& line, size_t layer) {
    const uint64_t parent = line.host ? process_track() : device_track(line.process);
    if (line.host && layer == 0) {
      return describe(parent, "", [&](Proto& proto) {
        char* thread = proto.begin(track::kThread);
        proto.number(track::kPid, static_cast<uint64_t>(document_.process));
        proto.number(track::kTid, static_cast<uint64_t>(line.tid));
        if (!line.name.empty()) proto.text(track::kThreadName, trace::safe_text(line.name).substr(0, 256));
        proto.end(thread);
      });
    }
    std::string name = line.name.empty() ? "thread " + std::to_string(line.tid) : line.name;
    if (layer != 0) name += ", crossing " + std::to_string(layer);
    return describe(parent, trace::safe_text(name),
                    [&](Proto& proto) { proto.number(track::kRank, static_cast<uint64_t>(line.sort)); });
  }

  void metadata() {
    if (document_.metadata.empty()) return;
    const uint64_t process = process_track();
    put_text(document_.metadata, [&](Proto& proto, std::string_view text) {
      proto.number(packet::kTimestamp, static_cast<uint64_t>(document_.window_begin - base_));
      char* event = proto.begin(packet::kTrackEvent);
      proto.number(slice::kType, kInstant);
      proto.number(slice::kTrack, process);
      proto.text(slice::kNameText, "kineto_spyre");
      char* one = proto.begin(slice::kArgument);
      proto.text(argument::kNameText, "kineto_spyre");
      proto.text(argument::kString, text);
      proto.end(one);
      proto.end(event);
    });
  }

  // The slices.

  struct Layer {
    uint64_t track = 0;
    std::vector<int64_t> open;  // ends, the innermost last
  };

  void write_line(const Line& line) {
    std::vector<Layer> layers;
    for (const Slice& slice : line.slices) {
      size_t layer = 0;
      for (; layer < layers.size(); ++layer) {
        close(layers[layer], slice.begin);
        if (layers[layer].open.empty() || slice.end <= layers[layer].open.back()) break;
      }
      if (layer == layers.size()) layers.push_back({line_track(line, layer), {}});
      open(layers[layer], slice);
    }
    for (Layer& layer : layers) close(layer, INT64_MAX);
  }

  void close(Layer& layer, int64_t until) {
    while (!layer.open.empty() && layer.open.back() <= until) {
      Proto proto(out_.room(64));
      char* const length = begin_packet(proto, layer.open.back());
      char* event = proto.begin(packet::kTrackEvent);
      proto.number(slice::kType, kEnd);
      proto.number(slice::kTrack, layer.track);
      proto.end(event);
      proto.end(length);
      out_.advance(proto.at());
      layer.open.pop_back();
    }
  }

  char* begin_packet(Proto& proto, int64_t ns) const {
    char* const length = proto.begin(packet::kPacket);
    proto.number(packet::kTimestamp, static_cast<uint64_t>(ns - base_));
    proto.number(packet::kSequence, 1);
    proto.number(packet::kFlags, kNeedsState);
    return length;
  }

  void open(Layer& layer, const Slice& slice) {
    const uint64_t name = name_of_slice(slice);
    const Event* event = slice.event;
    // The two bytes of a length hold so many arrows; no launch has as many pieces of work.
    constexpr uint32_t kMostArrows = 1'000;
    const bool launches = event != nullptr && event->is_call() && event->has(Event::kFlow);
    const uint32_t arrows = launches ? std::min(arrows_.of(event->id), kMostArrows) : 0;
    Proto proto(out_.room(kMostNumbers + 11 * size_t{arrows}));
    char* const length = begin_packet(proto, slice.begin);
    char* packet = proto.begin(packet::kTrackEvent);
    proto.number(slice::kType, kBegin);
    proto.number(slice::kTrack, layer.track);
    proto.number(slice::kName, name);
    if (event != nullptr) {
      proto.number(slice::kCategory, category_of(*event));
      event_arguments(proto, *event);
      for (uint32_t i = 0; i < arrows; ++i) proto.fixed64(slice::kFlow, arrow(event->id, i));
      if (!event->is_call() && event->has(Event::kFlow)) reach(proto, event->id, kMostArrows);
    } else if (slice.host != nullptr) {
      proto.number(slice::kCategory, slice.host->range ? kUserRange : kCpuOp);
      if (slice.host->external_id != 0) number(proto, kExternalId, slice.host->external_id);
    } else {
      proto.number(slice::kCategory, kDeviceRange);
    }
    proto.end(packet);
    proto.end(length);
    out_.advance(proto.at());
    layer.open.push_back(std::max(slice.begin, slice.end));
    ++written_.slices;
  }

  static uint64_t arrow(uint32_t id, uint32_t piece) { return uint64_t{piece} << 32 | id; }

  void reach(Proto& proto, uint32_t id, uint32_t most) {
    uint32_t piece = 0;
    if (arrows_.of(id) > 1) piece = reached_[id]++;
    if (piece >= most) return;
    proto.fixed64(slice::kLastFlow, arrow(id, piece));
    ++written_.arrows;
  }

  static void number(Proto& proto, Argument name, uint64_t value) {
    char* one = proto.begin(slice::kArgument);
    proto.number(argument::kName, name);
    proto.number(argument::kInt, value);
    proto.end(one);
  }

  void event_arguments(Proto& proto, const Event& event) {
    if (event.has(Event::kCorrelated) && (!event.is_call() || event.has(Event::kFlow))) {
      number(proto, kCorrelation, event.id);
    }
    if (const HostSlice* op = op_of(document_, event)) number(proto, kExternalId, op->external_id);
    trace::with_device_record(event, [&](const auto& record) {
      number(proto, kDevice, aiupti::device_id(record));
      number(proto, kStream, static_cast<uint64_t>(document_.trace->tracks[event.track].tid));
      if constexpr (requires { record.bytes; }) number(proto, kBytesMoved, aiupti::bytes(record));
      if constexpr (requires { record.local_memory_total; }) {
        if (const auto queued = aiupti::queued(record)) number(proto, kQueued, *queued);
      }
    });
  }

  const Document& document_;
  Output out_;
  Arrows arrows_;
  Written written_;
  int64_t base_ = 0;
  uint64_t tracks_ = 0;
  uint64_t process_ = 0;
  std::unordered_map<int64_t, uint64_t> devices_;
  std::unordered_map<std::string_view, uint64_t> names_;       // of texts in kept_names_
  std::unordered_map<std::string_view, uint64_t> raw_names_;   // of texts in records
  std::unordered_map<std::string_view, uint64_t> host_names_;  // of texts in the document
  std::deque<std::string> kept_names_;
  uint64_t calls_[256] = {};
  std::unordered_map<uint32_t, uint32_t> reached_;
};

}  // namespace

Written write_perfetto(const Document& document, Sink& sink) { return Perfetto(document, sink).write(); }

}  // namespace kineto_spyre::writer
