#include "trace/launch_joiner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "aiupti/cbid.h"
#include "trace/record_reader.h"

namespace kineto_spyre::trace {

LaunchJoiner::LaunchJoiner(const Input& input, const Options& options, EventStore* events, Tracks* tracks,
                           ClockEvidence* evidence, Trace* trace)
    : options_(options),
      events_(*events),
      tracks_(*tracks),
      evidence_(*evidence),
      trace_(*trace),
      timeline_(input.threads),
      table_(least_correlation(input.buffers), expected_calls(input.buffers)),
      traits_(traits_of_cbids()),
      window_length_(static_cast<uint64_t>(std::max<int64_t>(0, options.window_end - options.window_begin))) {}

std::array<uint8_t, LaunchJoiner::kCbids> LaunchJoiner::traits_of_cbids() {
  static const auto all = [] {
    std::array<uint8_t, kCbids> traits{};
    for (uint32_t cbid = 0; cbid < kCbids; ++cbid) {
      if (aiupti::launches_device_work(cbid)) traits[cbid] |= kLaunches;
      if (aiupti::known_cbid_name(cbid) == "aiuScheduleWait") traits[cbid] |= kWaits;
      if (!aiupti::known_cbid_name(cbid).empty()) traits[cbid] |= kKnown;
    }
    return traits;
  }();
  return all;
}

void LaunchJoiner::turn_to(uint32_t process, uint32_t tid) {
  caller_key_ = uint64_t{process} << 32 | tid;
  const auto [at, added] = callers_.try_emplace(caller_key_);
  caller_ = &at->second;
  if (!added) return;
  caller_->tid = tid;
  caller_->foreign = process != options_.process_id && process != 0 && process != trace_.other_process_id;
  if (caller_->foreign) return;
  if (tid == 0) {
    caller_->track = 0;  // op_without_ops() tells it for each call
    return;
  }
  caller_->thread = timeline_.thread(tid);
  caller_->has_ops = caller_->thread >= 0 && timeline_.has_ops(caller_->thread);
  caller_->track = host_track(tid);
}

uint32_t LaunchJoiner::op_without_ops(Event& event, int64_t start, uint8_t traits) {
  const OpTimeline::Sole sole = timeline_.sole_at(start);
  const uint32_t op = sole.op;
  const int64_t whose = op != 0 ? sole.tid : options_.process_id;
  if (sole.several && (traits & kLaunches) != 0) ++caller_->undecided;
  // A thread that the profiler saw has ranges of its own, if not ops; another one works for the thread in the op.
  const bool seen = caller_->tid != 0 && caller_->thread >= 0;
  if (!seen && (op != 0 || caller_->tid == 0)) owner_ = static_cast<uint32_t>(whose);
  if (caller_->tid == 0) {
    caller_->track = host_track(whose);
    event.track = static_cast<uint16_t>(caller_->track);
    ++trace_.calls_without_thread;
  }
  without_ops_.push_back(&event);
  return op;
}

void LaunchJoiner::join_foreign(Event& event, uint64_t correlation) {
  if (correlation != 0) {
    Launch& launch = table_.get(correlation);
    if (launch.rank == 0) launch.event = &event;
  }
  exclude(event, InvalidReason::kForeignProcess);
}

bool LaunchJoiner::is_better(Event& event, Launch& launch, int64_t start, uint8_t rank) {
  if (launch.rank == 0) {
    must_place_again_ = must_place_again_ || launch.joined != 0;
    return true;
  }
  if (same_record(event, *launch.event)) {
    exclude(event, InvalidReason::kDuplicate);
    return false;
  }
  if (rank < launch.rank || (rank == launch.rank && start >= launch.start)) return false;
  launch.event->clear(Event::kCorrelated);
  must_place_again_ = must_place_again_ || launch.joined != 0;  // work was joined to the lesser call
  return true;
}

void LaunchJoiner::exclude(Event& event, InvalidReason reason) {
  event.set(Event::kExcluded);
  trace_.count_invalid(reason);
}

void LaunchJoiner::add_wait(const AIUpti_ActivityAPI& call, int64_t start, uint32_t tid) {
  Wait wait{start, static_cast<int64_t>(aiupti::end(call)), launched_last(), tid, -1, 0};
  if (const auto target = options_.emulated ? aiupti::wait_target(call) : std::nullopt) {
    wait.device = static_cast<int32_t>(target->device);
    wait.stream = target->stream;
  }
  evidence_.add(wait);
}

// The correlation ids of the launches just before the last event, which its thread wrote one after the other.
std::array<uint64_t, Wait::kAfter> LaunchJoiner::launched_last() {
  std::array<uint64_t, Wait::kAfter> ids{};
  size_t found = 0;
  events_.each_before_last(4 * ids.size(), [&](const Event& event) {
    if (event.category != Category::kRuntime || found == ids.size()) return;
    const uint32_t cbid = aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(event.record));
    if (cbid < kCbids && (traits_[cbid] & kLaunches) != 0) ids[found++] = aiupti::correlation_id(event.record);
  });
  return ids;
}

int32_t LaunchJoiner::host_track(int64_t tid) {
  const auto [at, added] = host_tracks_.try_emplace(tid, -1);
  if (added) {
    // Kineto itself names the tracks of threads whose ops it records. The others are the runtime's, or the program's:
    // the profiler sees no ops on threads that were started by hand.
    const int32_t thread = timeline_.thread(tid);
    const bool named = thread >= 0;
    std::string name = named ? "" : "thread " + std::to_string(tid) + " (no ops recorded)";
    at->second = tracks_.add({true, options_.process_id, tid, tid, std::move(name)});
  }
  return at->second;
}

void LaunchJoiner::finish() {
  // A call on a helper thread belongs to the op of the call that launched under the same id.
  for (Event* event : without_ops_) {
    const uint64_t correlation = aiupti::correlation_id(event->record);
    const Launch* launch = correlation != 0 ? table_.find(correlation) : nullptr;
    if (launch != nullptr && launch->event != event && launch->rank != 0) event->link = launch->op;
  }
  bool any_with_ops = false;
  uint64_t undecided = 0;
  for (const auto& [key, caller] : callers_) {
    if (caller.has_ops && caller.with_op == 0) trace_.launches_without_op += caller.launches;
    any_with_ops = any_with_ops || (caller.has_ops && caller.launches != 0);
    if (caller.tid != 0) undecided += caller.undecided;
  }
  // A program may well launch from threads whose ops the profiler does not see. That all launches are of such threads
  // while others run the ops is what wrong thread ids look like.
  if (!any_with_ops) trace_.launches_of_unknown_threads = undecided;
}

}  // namespace kineto_spyre::trace
