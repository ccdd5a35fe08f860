// What Kineto is handed: one compact activity a record, and the arena that owns them all.
//
//   Chunk, 64 KiB and aligned to 64 KiB
//   +-------------+--------------+--------------+ ...
//   | Arena* (32) | Activity (32)| Activity (32)|
//   +-------------+--------------+--------------+
//                 | vtable 8 | record 8 | link 8 | id 4 | track 2 | kind 1 | flags 1 |
//
// An activity reads its record in place, in the buffer that libaiupti filled; names and metadata are made when someone
// asks, which is when the trace is written. What an activity shares with others (tracks) it finds through its chunk.
//
// Kineto keeps bare pointers to activities until the trace is freed. It owns GenericTraceActivity objects, so the arena
// is one: it goes into the trace buffer of the session, and with it live the chunks, the ranges and the CaptureResult.
#pragma once

#include <GenericTraceActivity.h>
#include <ITraceActivity.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/prefaulted_region.h"
#include "trace/trace.h"

namespace kineto_spyre::kineto {

class Arena;

class Activity final : public libkineto::ITraceActivity {
 public:
  int64_t deviceId() const override;
  int64_t resourceId() const override;
  int32_t getThreadId() const override { return 0; }
  int64_t timestamp() const override;
  int64_t duration() const override;
  int64_t correlationId() const override { return event.id; }
  int flowType() const override;
  int64_t flowId() const override { return event.has(trace::Event::kFlow) ? event.id : 0; }
  bool flowStart() const override { return host() && event.has(trace::Event::kFlow); }
  libkineto::ActivityType type() const override;
  const std::string name() const override;
  const ITraceActivity* linkedActivity() const override { return reinterpret_cast<const ITraceActivity*>(event.link); }
  const libkineto::TraceSpan* traceSpan() const override { return nullptr; }
  void log(libkineto::ActivityLogger& logger) const override;
  const std::string metadataJson() const override;

  trace::Event event;  // link: the op's activity, once the session has resolved it

 private:
  bool host() const;
  trace::Times times() const;
  const trace::Track& track() const;
  const Arena& arena() const;
};
static_assert(sizeof(Activity) <= 32);

// The device work of one record_function range on one stream.
class Range final : public libkineto::ITraceActivity {
 public:
  Range(const trace::DeviceRange& range, const trace::Track& track, const ITraceActivity* annotation)
      : range_(range), track_(track), annotation_(annotation) {}
  int64_t deviceId() const override { return track_.process; }
  int64_t resourceId() const override { return track_.tid; }
  int32_t getThreadId() const override { return 0; }
  int64_t timestamp() const override { return range_.start + margin(); }
  int64_t duration() const override { return range_.end - range_.start - 2 * margin(); }
  int64_t correlationId() const override { return static_cast<int64_t>(range_.range_id); }
  int flowType() const override { return 0; }
  int64_t flowId() const override { return 0; }
  bool flowStart() const override { return false; }
  libkineto::ActivityType type() const override { return libkineto::ActivityType::GPU_USER_ANNOTATION; }
  const std::string name() const override { return annotation_->name(); }
  // Not linked: a link would count the range's time as device time of the record_function, on top of its kernels'.
  const ITraceActivity* linkedActivity() const override { return nullptr; }
  const libkineto::TraceSpan* traceSpan() const override { return nullptr; }
  void log(libkineto::ActivityLogger& logger) const override;
  const std::string metadataJson() const override;

 private:
  // Kineto writes such a range one nanosecond earlier and two longer than it is, which would make neighbours overlap.
  int64_t margin() const { return range_.end - range_.start >= 2 ? 1 : 0; }

  const trace::DeviceRange& range_;
  const trace::Track& track_;
  const ITraceActivity* annotation_;
};

class Arena final : public libkineto::GenericTraceActivity, public trace::EventStore {
 public:
  Arena();
  ~Arena() override;

  capture::CaptureResult capture_result;
  trace::Trace trace;
  std::vector<Range> ranges;

  template <class F>
  void each_activity(F f) {
    each([&](trace::Event& event) {
      f(*reinterpret_cast<Activity*>(reinterpret_cast<std::byte*>(&event) - kEventOffset));
    });
  }
  // Memory that the chunks take.
  size_t chunk_bytes() const;

 private:
  friend class Activity;
  struct Chunk;
  static constexpr size_t kEventOffset = sizeof(Activity) - sizeof(trace::Event);

  void expect(size_t events) override { expected_ = events; }
  Block allocate() override;

  size_t expected_ = 0;                             // events
  std::vector<capture::PrefaultedRegion> regions_;  // of the chunks, which fill them from front to back
  size_t used_ = 0;                                 // bytes of the last
};

}  // namespace kineto_spyre::kineto
