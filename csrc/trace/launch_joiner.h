// From host calls to launches: who called, within which op, and which correlation id the call stands for.
//
// In: the records of runtime and driver calls that the reader found sound, each with an event that was appended for it.
// Out: the event filled in (op, track, id), the correlation table that device events look their launches up in, waits
// as evidence about the clocks, counts in Trace.
//
// Several host records may share one correlation id; one of them stands for it (kCorrelated). The better one wins: a
// call that launches before one that doesn't, a runtime call before a driver call, the earlier one of two alike. Work
// that was joined to a lesser one in the meantime has to be placed again: must_place_again().
//
// A call of another process is no launch, but is known: what it launched is not ours either.
//
// Whose op: the thread's own, if it runs ops. A thread that does not (a helper of the runtime's, or a release without
// thread ids) gets the op of its correlation id's launch if that is another call, else the op that was open at the time
// if only one thread had one open.
//
// Owns the op timeline and the correlation table. What is the same for all calls of a thread is found out once
// (Caller).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trace/clock_evidence.h"
#include "trace/correlation_table.h"
#include "trace/op_timeline.h"
#include "trace/tracks.h"

namespace kineto_spyre::trace {

// A thread's id as the kernel gives it, which is what op events know threads by; 0 if it can't be one (a release may
// write another number there, such as a thread's address).
inline constexpr uint32_t kMostTid = uint32_t{1} << 22;  // Linux: PID_MAX_LIMIT
constexpr uint32_t usable(uint32_t tid) { return tid <= kMostTid ? tid : 0; }

class LaunchJoiner {
 public:
  LaunchJoiner(const Input& input, const Options& options, EventStore* events, Tracks* tracks, ClockEvidence* evidence,
               Trace* trace);

  template <aiupti::Kind kind>
  void join(Event& event, AIUpti_Activity* record);

  // After all records: what could not be known before.
  void finish();
  bool must_place_again() const { return must_place_again_; }

  CorrelationTable& table() { return table_; }
  // The trace's id of a correlation id that is not 0.
  uint32_t id_of(uint64_t correlation) { return kIdBase + 1 + table_.number(correlation); }
  std::vector<uint64_t>& ops() { return timeline_.ops(); }

 private:
  // What all calls of a thread share.
  struct Caller {
    int32_t thread = -1;  // the timeline's number
    int32_t track = -1;
    uint32_t tid = 0;      // 0: not told
    bool foreign = false;  // of another process
    bool has_ops = false;
    uint64_t launches = 0;
    uint64_t with_op = 0;    // of them
    uint64_t undecided = 0;  // of them: of a thread without ops, while several threads had one open
  };
  enum Trait : uint8_t { kKnown = 1, kLaunches = 2, kWaits = 4 };  // of a callback id
  static constexpr size_t kCbids = 256;
  static constexpr uint8_t kBestRank = 4;  // a runtime call that launches
  static std::array<uint8_t, kCbids> traits_of_cbids();

  [[gnu::noinline]] void turn_to(uint32_t process, uint32_t tid);
  // The op of a call of a thread that runs no ops; owner_ is the thread that runs it.
  [[gnu::noinline]] uint32_t op_without_ops(Event& event, int64_t start, uint8_t traits);
  // The call is not the first of its correlation id: true if it is the better launch.
  [[gnu::noinline]] bool is_better(Event& event, Launch& launch, int64_t start, uint8_t rank);
  [[gnu::noinline]] void exclude(Event& event, InvalidReason reason);
  [[gnu::noinline]] void join_foreign(Event& event, uint64_t correlation);
  [[gnu::noinline]] void add_wait(const AIUpti_ActivityAPI& call, int64_t start, uint32_t tid);
  std::array<uint64_t, Wait::kAfter> launched_last();
  int32_t host_track(int64_t tid);

  const Options& options_;
  EventStore& events_;
  Tracks& tracks_;
  ClockEvidence& evidence_;
  Trace& trace_;
  OpTimeline timeline_;
  CorrelationTable table_;
  const std::array<uint8_t, kCbids> traits_;
  const uint64_t window_length_;

  uint64_t caller_key_ = UINT64_MAX;  // process and tid of the call before
  Caller* caller_ = nullptr;
  uint32_t owner_ = 0;  // of the call that is joined: the thread whose ranges own its work
  std::unordered_map<uint64_t, Caller> callers_;
  std::unordered_map<int64_t, int32_t> host_tracks_;
  std::vector<Event*> without_ops_;  // calls of threads that run no ops
  bool must_place_again_ = false;
};

template <aiupti::Kind kind>
void LaunchJoiner::join(Event& event, AIUpti_Activity* record) {
  constexpr bool kRuntime = kind == aiupti::Kind::kRuntime;
  constexpr Category kCategory = kRuntime ? Category::kRuntime : Category::kDriver;
  const AIUpti_ActivityAPI& call = *aiupti::as<AIUpti_ActivityAPI>(record);
  const auto start = static_cast<int64_t>(aiupti::start(call));
  const uint64_t correlation = aiupti::correlation_id(call);
  const uint32_t cbid = aiupti::cbid(call);
  const uint32_t process = aiupti::process_id(call);
  const uint32_t tid = usable(aiupti::thread_id(call).value_or(0));
  // The same thread as in the record before, nearly always.
  if ((uint64_t{process} << 32 | tid) != caller_key_) [[unlikely]]
    turn_to(process, tid);
  Caller& caller = *caller_;
  const uint8_t traits = cbid < kCbids ? traits_[cbid] : uint8_t{0};

  event = {record, 0, 0, static_cast<uint16_t>(caller.track), kCategory, Event::kNone};
  if (caller.foreign) [[unlikely]]
    return join_foreign(event, correlation);
  owner_ = caller.tid;
  const uint32_t op = caller.has_ops ? timeline_.at(caller.thread, start) : op_without_ops(event, start, traits);
  event.link = op;
  if (correlation != 0) [[likely]] {
    event.id = id_of(correlation);
    const auto rank = static_cast<uint8_t>(1 + (kRuntime ? 1 : 0) + (traits & kLaunches));
    static_assert(1 + 1 + kLaunches == kBestRank);
    Launch& launch = table_.get(correlation);
    if (launch.event == nullptr || is_better(event, launch, start, rank)) [[likely]] {
      launch = {start, &event, launch.work_end, op, owner_, 0, rank};
      event.flags = Event::kCorrelated;
    }
    if (event.has(Event::kExcluded)) [[unlikely]]
      return;  // a duplicate
  }
  if ((traits & kLaunches) != 0) {
    ++caller.launches;
    caller.with_op += op != 0 ? 1 : 0;
  }
  if ((traits & kWaits) != 0) [[unlikely]]
    add_wait(call, start, tid);

  if (static_cast<uint64_t>(start - options_.window_begin) > window_length_) [[unlikely]] {
    event.set(Event::kExcluded);
    ++trace_.out_of_window;
  } else if (!options_.wants(kCategory)) [[unlikely]] {
    event.set(Event::kExcluded);
    ++trace_.not_requested;
  } else if (caller.track < 0) [[unlikely]] {
    exclude(event, InvalidReason::kTooManyTracks);
  } else {
    if ((traits & kKnown) == 0) [[unlikely]]
      ++trace_.unknown_calls;
    ++trace_.captured[static_cast<size_t>(kCategory)];
  }
}

}  // namespace kineto_spyre::trace
