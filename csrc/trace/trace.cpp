#include "trace/trace.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "aiupti/cbid.h"
#include "trace/clock_alignment.h"
#include "trace/clock_evidence.h"
#include "trace/device_events.h"
#include "trace/launch_joiner.h"
#include "trace/process_ids.h"
#include "trace/record_reader.h"
#include "trace/tracks.h"
#include "trace/user_annotations.h"

namespace kineto_spyre::trace {
namespace {

using aiupti::Kind;

}  // namespace

// The passes, wired: what the reader finds sound goes to the launch joiner or to the device events.
class Passes {
 public:
  Passes(const Input& input, const Options& options, EventStore& events, Trace& trace)
      : input_(input),
        options_(options),
        events_(events),
        trace_(trace),
        tracks_(&trace),
        joiner_(input, options, &events, &tracks_, &evidence_, &trace),
        device_events_(options, &joiner_, &tracks_, &evidence_),
        reader_(input.next_record, options, &trace) {}

  void run() {
    if (const uint32_t id = process_id_of_records(input_, options_); id != options_.process_id) {
      trace_.other_process_id = id;
    }
    read_all();
    joiner_.finish();
    device_events_.place_pending();
    if (joiner_.must_place_again()) device_events_.place_again(events_);
    bool moved = false;
    trace_.clocks = align_clocks(evidence_, joiner_.table(), events_, options_.align_clocks, &moved);
    if (moved) device_events_.place_again(events_);
    finish();
  }

  // Work of a launch belongs to the ranges that were open on the launch's thread at its begin.
  void add_ranges(std::span<const HostRange> ranges, std::span<const BackwardInterval> backward) {
    if (ranges.empty()) return;
    UserAnnotations annotations(ranges, backward);
    events_.each([&](const Event& event) {
      if (event.is_call() || event.has(Event::kExcluded) || event.category == Category::kMemory) return;
      const uint64_t correlation = aiupti::correlation_id(event.record);
      const Launch* launch = correlation != 0 ? joiner_.table().find(correlation) : nullptr;
      const uint32_t segment = launch != nullptr ? annotations.segment_at(launch->tid, launch->start) : 0;
      if (segment == 0) return;
      with_device_record(event, [&](const auto& record) {
        StreamTrack& on = tracks_.stream(aiupti::device_id(record), aiupti::stream_id(record));
        if (!tracks_.is_made(on)) return;
        annotations.add(segment, static_cast<uint16_t>(on.track), static_cast<int64_t>(aiupti::start(record)),
                        static_cast<int64_t>(aiupti::end(record)));
      });
    });
    trace_.ranges = annotations.finish();
    tracks_.place_ranges(trace_.ranges);
  }

  // What the reader calls for each sound record.
  template <class R, Kind kind>
  void take(AIUpti_Activity* record, size_t size) {
    Event& event = events_.append();
    if constexpr (std::is_same_v<R, AIUpti_ActivityAPI>) {
      joiner_.join<kind>(event, record);
    } else {
      device_events_.add<R, kind>(event, record, size);
    }
  }

 private:
  // Buffers that begin with a host call first, so that most device work finds its launch.
  void read_all() {
    size_t expected = 0;
    for (const capture::Buffer& buffer : input_.buffers) expected += expected_records(buffer);
    events_.expect(expected);
    for (const bool calls_first : {true, false}) {
      for (const capture::Buffer& buffer : input_.buffers) {
        if (begins_with_host_call(buffer) == calls_first) reader_.read(buffer, *this);
      }
    }
    reader_.finish_sizes();
  }

  void finish() {
    device_events_.finish(&trace_);
    tracks_.settle(events_);
    for (const DeviceClock& clock : trace_.clocks) trace_.devices.push_back(clock.device);
    trace_.ops = std::move(joiner_.ops());
    if (const Event* early = device_events_.first_early(); early != nullptr) trace_.first_early = describe(*early);
    if (const Event* kernel = device_events_.first_long(); kernel != nullptr) trace_.first_long = describe(*kernel);
    count_launches_without_work();
  }

  // Calls that launched work, if no work at all was recorded, or if none of it joins any of them.
  void count_launches_without_work() {
    const bool any_work = reader_.saw(Kind::kCompute) || reader_.saw(Kind::kMemcpy) || reader_.saw(Kind::kMemcpy2) ||
                          reader_.saw(Kind::kMemset);
    if (!options_.wants(Category::kKernel) || (any_work && (trace_.linked != 0 || trace_.unlinked == 0))) return;
    uint64_t launches = 0;
    events_.each([&](const Event& event) {
      if (event.has(Event::kExcluded) || !event.is_call()) return;
      const uint32_t cbid = aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(event.record));
      const std::string_view name = aiupti::known_cbid_name(cbid);
      if (name == "aiuMalloc" || name == "aiuResizeTensorAllocation") return;  // only records of memory follow
      launches += aiupti::launches_device_work(cbid) ? 1 : 0;
    });
    (any_work ? trace_.launches_not_joined : trace_.launches_without_work) = launches;
  }

  const Input input_;
  const Options& options_;
  EventStore& events_;
  Trace& trace_;
  Tracks tracks_;
  ClockEvidence evidence_;
  LaunchJoiner joiner_;
  DeviceEvents device_events_;
  RecordReader reader_;
};

uint64_t Trace::total_captured() const { return std::accumulate(captured.begin(), captured.end(), uint64_t{0}); }
uint64_t Trace::total_invalid() const { return std::accumulate(invalid.begin(), invalid.end(), uint64_t{0}); }

Times within(Times op, Times call) {
  constexpr int64_t kClocksDiffer = 1'000;
  if (op.begin - call.begin >= kClocksDiffer || call.end - op.end >= kClocksDiffer || op.end < op.begin) return call;
  return {std::clamp(call.begin, op.begin, op.end), std::clamp(call.end, op.begin, op.end)};
}

TraceMaking::TraceMaking(const Input& input, const Options& options, EventStore* events, Trace* trace)
    : passes_(std::make_unique<Passes>(input, options, *events, *trace)) {
  passes_->run();
}
TraceMaking::~TraceMaking() = default;
void TraceMaking::add_ranges(std::span<const HostRange> ranges, std::span<const BackwardInterval> backward) {
  passes_->add_ranges(ranges, backward);
}

}  // namespace kineto_spyre::trace
