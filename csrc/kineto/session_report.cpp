#include "kineto/session_report.h"

#include <string_view>
#include <utility>
#include <vector>

#include "aiupti/records.h"

namespace kineto_spyre::kineto {
namespace {

using trace::Code;
using trace::Diagnostics;
using trace::JsonObject;

Code code_of(trace::InvalidReason reason) {
  using trace::InvalidReason;
  switch (reason) {
    case InvalidReason::kStartZero:
      return Code::kInvalidStartZero;
    case InvalidReason::kEndBeforeStart:
      return Code::kInvalidEndBeforeStart;
    case InvalidReason::kUnreasonableTime:
      return Code::kInvalidUnreasonableTime;
    case InvalidReason::kUnknownKind:
      return Code::kInvalidUnknownKind;
    case InvalidReason::kShorterRecord:
      return Code::kInvalidShorterRecord;
    case InvalidReason::kMalformed:
      return Code::kInvalidMalformed;
    case InvalidReason::kDuplicate:
      return Code::kInvalidDuplicate;
    case InvalidReason::kForeignProcess:
      return Code::kInvalidForeignProcess;
    case InvalidReason::kTooManyTracks:
      return Code::kInvalidTooManyTracks;
  }
  return Code::kInvalidMalformed;
}

// So many records of other processes to one of ours.
constexpr uint64_t kNearlyAll = 9;

JsonObject first(const std::string& event) {
  JsonObject details;
  if (!event.empty()) details.text("first", event);
  return details;
}

// Then this program's own work is not in the trace, or hardly any of it.
bool nearly_all_are_foreign(const trace::Trace& trace) {
  const uint64_t foreign = trace.invalid[static_cast<size_t>(trace::InvalidReason::kForeignProcess)];
  return foreign > kNearlyAll * trace.total_captured();
}

// What the passes found.
void add_findings(const trace::Trace& trace, uint32_t process_id, Diagnostics& diagnostics) {
  for (size_t i = 0; i < trace::kInvalidReasons; ++i) {
    const Code code = code_of(static_cast<trace::InvalidReason>(i));
    const bool missing = code == Code::kInvalidForeignProcess && nearly_all_are_foreign(trace);
    diagnostics.add(missing ? Code::kRecordsOfOtherProcesses : code, trace.invalid[i]);
  }
  if (trace.other_process_id != 0) {
    JsonObject details;
    details.number("seen", uint64_t{trace.other_process_id}).number("own", uint64_t{process_id});
    diagnostics.add(Code::kOtherProcessId, 1, details);
  }
  for (size_t i = 0; i < aiupti::kKinds; ++i) {
    const auto& sizes = trace.sizes[i];
    if (sizes.seen == 0 || sizes.seen == sizes.built || sizes.seen == sizes.read) continue;
    JsonObject details;
    details.text("kind", aiupti::kind_name(static_cast<aiupti::Kind>(i)));
    details.number("seen", uint64_t{sizes.seen}).number("built", uint64_t{sizes.built});
    diagnostics.add(sizes.seen > sizes.built ? Code::kRecordsLongerThanBuilt : Code::kRecordsShorterThanBuilt, 1,
                    details);
  }
  diagnostics.add(Code::kUnfinishedReads, trace.unfinished_reads);
  diagnostics.add(Code::kLaunchesWithoutWork, trace.launches_without_work);
  diagnostics.add(Code::kLaunchesNotJoined, trace.launches_not_joined);
  diagnostics.add(Code::kNoThreadIds, trace.calls_without_thread);
  diagnostics.add(Code::kLaunchesWithoutOp, trace.launches_without_op);
  diagnostics.add(Code::kLaunchesOfUnknownThreads, trace.launches_of_unknown_threads);
  diagnostics.add(Code::kWorkBeforeLaunch, trace.early, first(trace.first_early));
  diagnostics.add(Code::kOverlappingKernels, trace.overlaps, first(trace.first_overlap));
  diagnostics.add(Code::kLongKernels, trace.long_kernels, first(trace.first_long));
  diagnostics.add(Code::kTracksExhausted, trace.tracks_exhausted);
  for (const trace::DeviceClock& clock : trace.clocks) {
    if (!clock.applied) continue;
    JsonObject details;
    details.number("device", uint64_t{clock.device}).number("offset_ns", clock.offset_ns);
    diagnostics.add(Code::kClockCorrected, 1, details);
  }
}

std::string clocks_of(const trace::Trace& trace) {
  JsonObject clocks;
  for (const auto& clock : trace.clocks) {
    JsonObject one;
    one.boolean("applied", clock.applied).number("offset_ns", clock.offset_ns).number("drift_ppm", clock.drift_ppm);
    one.number("reference_ns", clock.reference_ns).number("pairs", clock.pairs);
    one.number("earliest_ns", clock.earliest_ns);
    if (clock.uncertainty_ns >= 0) one.number("uncertainty_ns", clock.uncertainty_ns);
    one.text("reason", clock.reason);
    clocks.raw(std::to_string(clock.device), one.str());
  }
  return clocks.str();
}

std::string sizes_of(const trace::Trace& trace) {
  JsonObject records;
  for (size_t i = 0; i < aiupti::kKinds; ++i) {
    if (trace.sizes[i].seen == 0) continue;
    JsonObject sizes;
    sizes.number("built", uint64_t{trace.sizes[i].built}).number("seen", uint64_t{trace.sizes[i].seen});
    records.raw(aiupti::kind_name(static_cast<aiupti::Kind>(i)), sizes.str());
  }
  return records.str();
}

std::string devices_of(const trace::Trace& trace) {
  std::string devices;
  for (uint32_t device : trace.devices) devices += (devices.empty() ? "" : ", ") + std::to_string(device);
  return '[' + devices + ']';
}

std::string versions() {
  JsonObject versions;
  versions.text("kineto_spyre", KINETO_SPYRE_VERSION).text("built_for_torch", KINETO_SPYRE_TORCH);
  versions.text("libaiupti_header", KINETO_SPYRE_AIUPTI_HEADER);
  return versions.str();
}

}  // namespace

void diagnose(const SessionFacts& facts, const trace::Trace& trace, Diagnostics& diagnostics) {
  const capture::Drops& drops = facts.drops;
  diagnostics.add(Code::kRecordsDropped, facts.dropped);
  diagnostics.add(Code::kBuffersUncounted, drops.uncounted_buffers);
  diagnostics.add(Code::kBufferRequestsRefused, drops.requests_without_buffer);
  diagnostics.add(Code::kOpEventsDropped, drops.op_events_dropped);
  diagnostics.add(Code::kBuffersUnknown, drops.unknown_buffers);
  diagnostics.add(Code::kBuffersLate, drops.late_completions);
  diagnostics.add(Code::kBuffersOversized, drops.oversized);
  diagnostics.add(Code::kBuffersNotReturned, drops.buffers_not_returned);
  add_findings(trace, facts.process_id, diagnostics);
  // What explains it better goes before.
  if (facts.recorded && trace.records_read == 0 && diagnostics.complete()) {
    diagnostics.add(Code::kNoRecordsAtAll, 1, JsonObject().text("library", facts.library));
  }
}

std::string report(const SessionFacts& facts, const trace::Trace& trace, const Diagnostics& diagnostics) {
  JsonObject captured;
  for (size_t i = 0; i < trace::kCategories; ++i) {
    captured.number(trace::category_name(static_cast<trace::Category>(i)), trace.captured[i]);
  }
  JsonObject invalid;
  for (size_t i = 0; i < trace::kInvalidReasons; ++i) {
    if (trace.invalid[i] == 0) continue;
    invalid.number(trace::invalid_reason_name(static_cast<trace::InvalidReason>(i)), trace.invalid[i]);
  }
  const capture::Drops& drops = facts.drops;
  JsonObject json;
  json.raw("versions", versions()).text("runtime", facts.runtime);
  if (facts.library.empty()) {
    json.raw("library", "null");
  } else {
    json.text("library", facts.library);
  }
  json.boolean("complete", diagnostics.complete()).raw("diagnostics", diagnostics.json());
  json.number("records_read", trace.records_read).raw("captured", captured.str()).raw("invalid", invalid.str());
  json.number("dropped", facts.dropped).number("out_of_window", trace.out_of_window);
  json.number("not_requested", trace.not_requested).number("overlaps", trace.overlaps);
  json.number("before_launch", trace.early).number("unlinked", trace.unlinked);
  json.number("long_kernels", trace.long_kernels).number("unknown_calls", trace.unknown_calls);
  json.number("unfinished_reads", trace.unfinished_reads).number("prepare_operations", trace.prepare_operations);
  json.number("buffer_requests_refused", drops.requests_without_buffer);
  json.number("op_events_dropped", drops.op_events_dropped).number("late_buffers", drops.late_completions);
  json.number("unknown_buffers", drops.unknown_buffers).number("oversized_buffers", drops.oversized);
  json.number("buffers_not_returned", drops.buffers_not_returned);
  json.raw("clock", clocks_of(trace)).raw("devices", devices_of(trace)).raw("records", sizes_of(trace));
  json.number("window_begin_ns", facts.window_begin).number("window_end_ns", facts.window_end);
  return json.str();
}

}  // namespace kineto_spyre::kineto
