#include <catch2/catch.hpp>
#include "trace/records.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;
using namespace kineto_spyre::trace::testing;

namespace {

// Runs the case with the records in the order given and in the opposite one, across buffers.
template <class Case>
void in_both_orders(Case run) {
  for (bool reversed : {false, true}) {
    INFO("records reversed: " << reversed);
    Session session(512);  // a few records a buffer
    run(session, reversed);
    REQUIRE(session.adds_up());
  }
}

void add_in_order(Session& session, bool reversed, const std::vector<std::function<void()>>& records) {
  if (reversed) {
    for (auto at = records.rbegin(); at != records.rend(); ++at) (*at)();
  } else {
    for (const auto& record : records) record();
  }
  (void)session;
}

}  // namespace

TEST_CASE("case 1: a kernel belongs to the op that was innermost on the launching thread, whatever numbers are equal") {
  in_both_orders([](Session& session, bool reversed) {
    session.op(7, 0, 100 * kUs);
    session.op(101, 200 * kUs, 300 * kUs);
    add_in_order(
        session, reversed,
        {
            [&] { session.add(Call{.start = 10 * kUs, .end = 20 * kUs, .correlation = 101}); },
            [&] { session.add(Kernel{.name = "k", .start = 30 * kUs, .end = 1030 * kUs, .correlation = 101}); },
        });
    session.make();
    REQUIRE(session.all.size() == 2);
    int64_t of_7 = 0;
    int64_t of_101 = 0;
    for (const Event* event : session.all) {
      CHECK(session.op_of(*event) == 7);
      if (event->category != Category::kKernel) continue;
      of_7 += session.op_of(*event) == 7 ? Session::duration_of(*event) : 0;
      of_101 += session.op_of(*event) == 101 ? Session::duration_of(*event) : 0;
    }
    CHECK(of_7 == 1'000'000);
    CHECK(of_101 == 0);
  });
}

TEST_CASE("case 2: one arrow from the launching call to its work; none for what no call launched") {
  in_both_orders([](Session& session, bool reversed) {
    add_in_order(session, reversed,
                 {
                     [&] { session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 101}); },
                     [&] { session.add(Call{.start = 15 * kUs, .end = 35 * kUs, .correlation = 101, .driver = true}); },
                     [&] { session.add(Kernel{.start = 50 * kUs, .end = 60 * kUs, .correlation = 101}); },
                     [&] { session.add(Copy{.start = 70 * kUs, .end = 80 * kUs, .correlation = 102}); },
                 });
    session.make();
    REQUIRE(session.all.size() == 4);
    const Event& runtime = *session.of(aiupti::Kind::kRuntime).at(0);
    const Event& driver = *session.of(aiupti::Kind::kDriver).at(0);
    const Event& kernel = *session.of(aiupti::Kind::kCompute).at(0);
    const Event& copy = *session.of(aiupti::Kind::kMemcpy).at(0);
    CHECK(runtime.has(Event::kFlow));
    CHECK(runtime.has(Event::kCorrelated));
    CHECK(kernel.has(Event::kFlow));
    CHECK(runtime.id == kernel.id);
    CHECK_FALSE(driver.has(Event::kFlow));
    CHECK_FALSE(driver.has(Event::kCorrelated));
    CHECK_FALSE(copy.has(Event::kFlow));
    CHECK(copy.has(Event::kCorrelated));
    CHECK(copy.id != kernel.id);
    CHECK(session.trace.unlinked == 1);
  });
}

TEST_CASE("the launch is the call that launches, not the one that came first or is nested in it") {
  in_both_orders([](Session& session, bool reversed) {
    add_in_order(session, reversed,
                 {
                     [&] { session.add(Call{.cbid = kGraphExecution, .start = 0, .end = 90 * kUs, .correlation = 5}); },
                     [&] { session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 5}); },
                     [&] { session.add(Kernel{.start = 50 * kUs, .end = 60 * kUs, .correlation = 5}); },
                 });
    session.make();
    for (const Event* event : session.of(aiupti::Kind::kRuntime)) {
      const bool launch = aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(event->record)) == kLaunch;
      CHECK(event->has(Event::kFlow) == launch);
      CHECK(event->has(Event::kCorrelated) == launch);
    }
  });
}

TEST_CASE("one launch and all of its work share one id") {
  Session session;
  session.add(Call{.start = 0, .end = 10, .correlation = 9, .data = 3});
  for (int i = 0; i < 3; ++i) session.add(Kernel{.start = 20 + 10 * i, .end = 30 + 10 * i, .correlation = 9});
  session.make();
  for (const Event* event : session.all) {
    CHECK(event->id == session.all[0]->id);
    CHECK(event->has(Event::kFlow));
  }
}

TEST_CASE("the innermost op wins, and only on its own thread") {
  Session session;
  session.op(1, 0, 100 * kUs);
  session.op(2, 10 * kUs, 50 * kUs);
  session.op(3, 0, 100 * kUs, 777);
  session.add(Call{.start = 20 * kUs, .end = 21 * kUs, .correlation = 1});
  session.add(Call{.start = 60 * kUs, .end = 61 * kUs, .correlation = 2});
  session.add(Call{.start = 20 * kUs, .end = 21 * kUs, .correlation = 3, .thread = 777});
  session.add(Call{.start = 20 * kUs, .end = 21 * kUs, .correlation = 4, .thread = 778});
  for (uint64_t i = 1; i <= 4; ++i) {
    session.add(Kernel{.name = "k" + std::to_string(i),
                       .start = static_cast<int64_t>(100 + i) * kUs,
                       .end = static_cast<int64_t>(101 + i) * kUs,
                       .correlation = i});
  }
  session.make();
  CHECK(session.op_of(session.kernel("k1")) == 2);
  CHECK(session.op_of(session.kernel("k2")) == 1);
  CHECK(session.op_of(session.kernel("k3")) == 3);
  CHECK(session.op_of(session.kernel("k4")) == 0);
  CHECK(session.kernel("k4").has(Event::kFlow));  // its launch is known, its op is not
}

TEST_CASE("a launch outside any op belongs to none") {
  Session session;
  session.op(1, 0, 10 * kUs);
  session.add(Call{.start = 20 * kUs, .end = 21 * kUs, .correlation = 1});
  session.add(Kernel{.start = 30 * kUs, .end = 31 * kUs, .correlation = 1});
  session.make();
  for (const Event* event : session.all) CHECK(event->link == 0);
}

TEST_CASE("a driver call on a helper thread belongs to the op of the runtime call with its id") {
  in_both_orders([](Session& session, bool reversed) {
    session.op(7, 0, 100 * kUs);
    add_in_order(
        session, reversed,
        {
            [&] { session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 3}); },
            [&] {
              session.add(Call{.start = 45 * kUs, .end = 50 * kUs, .correlation = 3, .thread = 999, .driver = true});
            },
            [&] { session.add(Kernel{.start = 60 * kUs, .end = 70 * kUs, .correlation = 3}); },
        });
    session.make();
    for (const Event* event : session.all) CHECK(session.op_of(*event) == 7);
  });
}

TEST_CASE("a correlation id of 0 joins nothing, and its work has an id of its own all the same") {
  Session session;
  session.op(7, 0, 100 * kUs);
  session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 0});
  session.add(Kernel{.name = "a", .start = 50 * kUs, .end = 60 * kUs, .correlation = 0});
  session.add(Kernel{.name = "b", .start = 70 * kUs, .end = 80 * kUs, .correlation = 0});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.kernel("a").link == 0);
  CHECK_FALSE(session.kernel("a").has(Event::kFlow));
  CHECK(session.kernel("a").id > kIdBase);
  CHECK(session.kernel("a").id != session.kernel("b").id);
}

TEST_CASE("case 6: ids above 31 bits, and wrapped ones, come out distinct, small and positive") {
  Session session;
  std::vector<uint64_t> raw = {(uint64_t{1} << 31) + 5, UINT32_MAX, 1, 5, UINT32_MAX - 1, 0x9000'0005};
  if (sizeof(AIUpti_ActivityCompute::correlation_id) > 4) raw.push_back((uint64_t{1} << 32) + 5);
  int64_t at = 0;
  for (uint64_t id : raw) {
    session.add(Call{.start = at, .end = at + 5, .correlation = id});
    session.add(Kernel{.name = std::to_string(id), .start = at + 6, .end = at + 8, .correlation = id});
    at += 10;
  }
  session.make();
  REQUIRE(session.adds_up());
  std::map<uint32_t, int> seen;
  for (const Event* event : session.of(aiupti::Kind::kCompute)) {
    CHECK(event->id > kIdBase);
    CHECK(event->id < uint32_t{1} << 31);
    CHECK(event->has(Event::kFlow));
    ++seen[event->id];
  }
  CHECK(seen.size() == raw.size());
}

TEST_CASE("a call outlasts its op by no difference of clocks") {
  const Times op{10'000, 20'000};
  CHECK(within(op, {12'000, 18'000}) == Times{12'000, 18'000});
  CHECK(within(op, {12'000, 20'300}) == Times{12'000, 20'000});
  CHECK(within(op, {9'700, 18'000}) == Times{10'000, 18'000});
  CHECK(within(op, {9'700, 20'300}) == op);
  CHECK(within(op, {20'100, 20'200}) == Times{20'000, 20'000});
  // That far apart it is not the clocks.
  CHECK(within(op, {12'000, 21'000}) == Times{12'000, 21'000});
  CHECK(within(op, {9'000, 18'000}) == Times{9'000, 18'000});
}

TEST_CASE("calls of another process, and what only they launched, are invalid") {
  Session session;
  session.op(7, 0, 100 * kUs);
  session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 3, .thread = 9, .process = kProcess + 1});
  session.add(Kernel{.start = 60 * kUs, .end = 70 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.all.empty());
  CHECK(session.invalid(InvalidReason::kForeignProcess) == 2);
}

TEST_CASE("a release that doesn't tell the thread: joined where only one thread was in an op") {
  Session session;
  session.op(1, 0, 100 * kUs);
  session.op(2, 50 * kUs, 150 * kUs, 777);
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1, .thread = 0});
  session.add(Call{.start = 60 * kUs, .end = 61 * kUs, .correlation = 2, .thread = 0});
  session.add(Call{.start = 120 * kUs, .end = 121 * kUs, .correlation = 3, .thread = 0});
  session.make();
  const auto calls = session.of(aiupti::Kind::kRuntime);
  CHECK(session.op_of(*calls.at(0)) == 1);
  CHECK(session.op_of(*calls.at(1)) == 0);
  CHECK(session.op_of(*calls.at(2)) == 2);
}

TEST_CASE("a release that tells a number that is no thread's id is as one that tells none") {
  Session session;
  session.op(1, 0, 100 * kUs);
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1, .thread = 0xf7bf'f6c0});
  session.add(Call{.start = 20 * kUs, .end = 21 * kUs, .correlation = 2});
  const Trace& trace = session.make();
  const auto calls = session.of(aiupti::Kind::kRuntime);
  CHECK(trace.calls_without_thread == 1);
  CHECK(session.op_of(*calls.at(0)) == 1);
  CHECK(session.track_of(*calls.at(0)).tid == kThread);
  CHECK(session.op_of(*calls.at(1)) == 1);
}

TEST_CASE("an op whose end was lost does not swallow what comes after") {
  Session session;
  session.op_event(kThread, 0, 7, capture::OpEventKind::kPushOp);
  session.threads[0].dropped = 3;
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1});
  session.make();
  CHECK(session.all.at(0)->link == 0);
}

TEST_CASE("an end without a begin is passed over") {
  Session session;
  session.op_event(kThread, 0, 0, capture::OpEventKind::kPopOp);
  session.op(7, 5 * kUs, 20 * kUs);
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1});
  session.make();
  CHECK(session.op_of(*session.all.at(0)) == 7);
}

TEST_CASE("a record_function range spans its work on each stream, and a range within it counts for it too") {
  Session session;
  session.range(50, 0, 100 * kUs);
  session.range(51, 20 * kUs, 40 * kUs);
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1});
  session.add(Call{.start = 30 * kUs, .end = 31 * kUs, .correlation = 2});
  session.add(Call{.start = 35 * kUs, .end = 36 * kUs, .correlation = 3});
  session.add(Call{.start = 200 * kUs, .end = 201 * kUs, .correlation = 4});
  session.add(Kernel{.start = 100 * kUs, .end = 200 * kUs, .correlation = 1});
  session.add(Kernel{.start = 300 * kUs, .end = 400 * kUs, .correlation = 2});
  session.add(Kernel{.start = 310 * kUs, .end = 350 * kUs, .correlation = 3, .stream = 2});
  session.add(Kernel{.start = 500 * kUs, .end = 600 * kUs, .correlation = 4});
  session.make();
  std::map<std::pair<uint64_t, std::string>, std::pair<int64_t, int64_t>> ranges;
  for (const DeviceRange& range : session.trace.ranges) {
    CHECK(ranges.count({range.range_id, session.trace.tracks[range.track].name}) == 0);
    ranges[{range.range_id, session.trace.tracks[range.track].name}] = {(range.start - kNow) / kUs,
                                                                        (range.end - kNow) / kUs};
  }
  CHECK(ranges == decltype(ranges){{{50, "stream 1 ranges"}, {100, 400}},
                                   {{51, "stream 1 ranges"}, {300, 400}},
                                   {{50, "stream 2 ranges"}, {310, 350}},
                                   {{51, "stream 2 ranges"}, {310, 350}}});
}

TEST_CASE("a thread with a range and without ops: its work lies in its range, though another thread is in an op") {
  Session session;
  session.op(7, 0, 100 * kUs);
  session.range(9, 5 * kUs, 50 * kUs, 999);
  session.op_event(999, 5 * kUs, 9, capture::OpEventKind::kPushRange);
  session.op_event(999, 50 * kUs, 0, capture::OpEventKind::kPopRange);
  session.add(Call{.start = 10 * kUs, .end = 20 * kUs, .correlation = 3, .thread = 999});
  session.add(Kernel{.name = "k", .start = 60 * kUs, .end = 70 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.trace.ranges.size() == 1);
  CHECK(session.trace.ranges[0].range_id == 9);
  CHECK(session.trace.ranges[0].start == kNow + 60 * kUs);
}

TEST_CASE("work that was joined to a lesser call before the launch turned up is joined to the launch") {
  Session session;  // one buffer: host calls and device work mixed
  session.op(7, 0, 100 * kUs);
  session.op(8, 0, 100 * kUs, 999);
  session.add(Call{.start = 15 * kUs, .end = 20 * kUs, .correlation = 3, .thread = 999, .driver = true});
  session.add(Kernel{.name = "k", .start = 60 * kUs, .end = 70 * kUs, .correlation = 3});
  session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.op_of(session.kernel("k")) == 7);
  CHECK(session.of(aiupti::Kind::kRuntime).at(0)->has(Event::kFlow));
  CHECK_FALSE(session.of(aiupti::Kind::kDriver).at(0)->has(Event::kFlow));
  CHECK(session.trace.unlinked == 0);
}

TEST_CASE("an allocation that was joined to a lesser call before the launch turned up is joined to the launch") {
  Session session;  // one buffer: host calls and device work mixed
  session.add(Call{.start = 15 * kUs, .end = 20 * kUs, .correlation = 3, .thread = 999, .driver = true});
  AIUpti_ActivityMemory memory{};
  memory.kind = AIUPTI_ACTIVITY_KIND_MEMORY;
  memory.correlation_id = 3;
  memory.start = memory.end = static_cast<uint64_t>(kNow + 17 * kUs);
  session.raw(memory);
  session.add(Call{.cbid = kMalloc, .start = 10 * kUs, .end = 40 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.of(aiupti::Kind::kMemory).at(0)->track == session.of(aiupti::Kind::kRuntime).at(0)->track);
  CHECK(session.of(aiupti::Kind::kRuntime).at(0)->has(Event::kFlow));
  CHECK_FALSE(session.of(aiupti::Kind::kDriver).at(0)->has(Event::kFlow));
}

TEST_CASE("work whose lesser call lies before the window, and whose launch lies within it, is in the trace") {
  Session session;
  session.add(Call{.start = -5 * kUs, .end = -1 * kUs, .correlation = 3, .driver = true});
  session.add(Kernel{.name = "k", .start = 60 * kUs, .end = 70 * kUs, .correlation = 3});
  session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.kernel("k").has(Event::kFlow));
  CHECK(session.trace.out_of_window == 1);  // the lesser call
}

TEST_CASE("work that another process's call seemed to have launched is in the trace if a call of this one did") {
  Session session;
  session.add(Call{.start = 10 * kUs, .end = 40 * kUs, .correlation = 3, .process = kProcess + 1});
  session.add(Kernel{.name = "k", .start = 60 * kUs, .end = 70 * kUs, .correlation = 3});
  session.add(Call{.start = 12 * kUs, .end = 40 * kUs, .correlation = 3});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.kernel("k").has(Event::kFlow));
  CHECK(session.invalid(InvalidReason::kForeignProcess) == 1);  // the other's call
}

TEST_CASE("an allocation has an arrow, and is not counted as device time of the op") {
  Session session;
  session.op(7, 0, 100 * kUs);
  session.add(Call{.cbid = kMalloc, .start = 10 * kUs, .end = 20 * kUs, .correlation = 3});
  AIUpti_ActivityMemory memory{};
  memory.kind = AIUPTI_ACTIVITY_KIND_MEMORY;
  memory.correlation_id = 3;
  memory.start = memory.end = kNow + 15 * kUs;
  session.raw(memory);
  session.make();
  const Event& event = *session.of(aiupti::Kind::kMemory).at(0);
  CHECK(event.has(Event::kFlow));
  CHECK(event.link == 0);
  CHECK(session.op_of(*session.of(aiupti::Kind::kRuntime).at(0)) == 7);
}

TEST_CASE("many launches of many threads, in any order, each with its op") {
  Session session(1 << 14);
  std::map<uint64_t, uint64_t> op_of;  // by correlation id
  uint64_t correlation = 0;
  uint64_t op = 0;
  for (int round = 0; round < 200; ++round) {
    for (uint32_t thread = 1; thread <= 7; ++thread) {
      const int64_t at = (round * 7 + static_cast<int64_t>(thread)) * 100;
      session.op(++op, at, at + 90, static_cast<int32_t>(thread));
      for (int i = 0; i < 3; ++i) {
        // Ids of one thread lie far from those of another.
        const uint64_t id = ++correlation + thread * 100'000;
        op_of[id] = op;
        session.add(Call{.start = at + 10 + i, .end = at + 11 + i, .correlation = id, .thread = thread});
      }
    }
    if (round % 2 == 0) session.new_buffer();
  }
  int64_t at = 1'000'000;
  for (const auto& [id, _] : op_of) session.add(Kernel{.start = at += 10, .end = at + 5, .correlation = id});
  session.reverse();
  session.make();
  REQUIRE(session.adds_up());
  REQUIRE(session.captured(Category::kKernel) == op_of.size());
  std::map<uint32_t, uint64_t> ids;
  for (const Event* event : session.of(aiupti::Kind::kCompute)) {
    const uint64_t id = aiupti::correlation_id(event->record);
    CHECK(session.op_of(*event) == op_of.at(id));
    CHECK(ids.emplace(event->id, id).second);
  }
}
