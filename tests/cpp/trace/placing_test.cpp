#include <set>

#include <catch2/catch.hpp>
#include "trace/records.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;
using namespace kineto_spyre::trace::testing;

namespace {

int64_t tid(const Session& session, const Event& event) { return session.track_of(event).tid; }

// No two events of one device track overlap.
bool tracks_are_clean(const Session& session) {
  std::map<uint16_t, std::vector<std::pair<int64_t, int64_t>>> tracks;
  for (const Event* event : session.all) {
    if (session.track_of(*event).host) continue;
    tracks[event->track].emplace_back(Session::start_of(*event),
                                      Session::start_of(*event) + Session::duration_of(*event));
  }
  for (auto& [track, work] : tracks) {
    std::sort(work.begin(), work.end());
    for (size_t i = 1; i < work.size(); ++i) {
      if (work[i].first < work[i - 1].second) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("case 3: kernels that overlap on one stream keep their times, count once, and are named in one warning") {
  for (bool reversed : {false, true}) {
    INFO("records reversed: " << reversed);
    Session session;
    const Kernel first{.name = "first", .start = 0, .end = 10 * kUs, .correlation = 1};
    const Kernel second{.name = "second", .start = 5 * kUs, .end = 15 * kUs, .correlation = 2};
    session.add(reversed ? second : first);
    session.add(reversed ? first : second);
    session.make();
    REQUIRE(session.adds_up());
    CHECK(session.trace.overlaps == 1);
    CHECK(Session::start_of(session.kernel("first")) == 0);
    CHECK(Session::duration_of(session.kernel("first")) == 10 * kUs);
    CHECK(Session::start_of(session.kernel("second")) == 5 * kUs);
    CHECK(Session::duration_of(session.kernel("second")) == 10 * kUs);
    CHECK(session.kernel("first").track == session.kernel("second").track);
    CHECK(session.trace.first_overlap == "'first' and 'second' on stream 1 of device 0");
  }
}

TEST_CASE("case 3: kernels on two streams don't overlap") {
  Session session;
  session.add(Kernel{.name = "a", .start = 0, .end = 10 * kUs, .correlation = 1, .stream = 1});
  session.add(Kernel{.name = "b", .start = 5 * kUs, .end = 15 * kUs, .correlation = 2, .stream = 2});
  session.make();
  CHECK(session.trace.overlaps == 0);
  CHECK(tid(session, session.kernel("a")) == 1);
  CHECK(tid(session, session.kernel("b")) == 2);
}

TEST_CASE("case 3: copies that overlap go to two tracks") {
  for (bool reversed : {false, true}) {
    INFO("records reversed: " << reversed);
    Session session;
    const Copy first{.start = 0, .end = 10 * kUs, .correlation = 1};
    const Copy second{.start = 5 * kUs, .end = 15 * kUs, .correlation = 2};
    session.add(reversed ? second : first);
    session.add(reversed ? first : second);
    session.make();
    std::set<int64_t> tids;
    for (const Event* event : session.all) tids.insert(tid(session, *event));
    CHECK(tids == std::set<int64_t>{100, 101});
    CHECK(session.trace.overlaps == 0);
    CHECK(session.trace.tracks_exhausted == 0);
  }
}

TEST_CASE("a fully shuffled stream is not an overlap") {
  Session session;
  for (int i : {5, 1, 4, 0, 3, 2}) {
    session.add(Kernel{.start = i * 10, .end = i * 10 + 10, .correlation = static_cast<uint64_t>(i + 1)});
  }
  session.make();
  CHECK(session.trace.overlaps == 0);
  CHECK(session.captured(Category::kKernel) == 6);
}

TEST_CASE("one kernel over many others counts each of them") {
  Session session;
  session.add(Kernel{.start = 0, .end = 100, .correlation = 1});
  for (int i = 1; i < 4; ++i) session.add(Kernel{.start = i * 10, .end = i * 10 + 5, .correlation = uint64_t(i) + 1});
  session.make();
  CHECK(session.trace.overlaps == 3);
}

TEST_CASE("copies have a track for each direction, fills and allocations one each, and all tracks have names") {
  Session session;
  session.add(Copy{.kind = AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD, .end = 10, .correlation = 1});
  session.add(Copy{.kind = AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH, .end = 10, .correlation = 2});
  session.add(Copy{.kind = AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP, .end = 10, .correlation = 3});
  AIUpti_ActivityMemset fill{};
  fill.kind = AIUPTI_ACTIVITY_KIND_MEMSET;
  fill.correlation_id = 4;
  fill.start = fill.end = kNow;
  session.raw(fill);
  AIUpti_ActivityMemory memory{};
  memory.kind = AIUPTI_ACTIVITY_KIND_MEMORY;
  memory.correlation_id = 5;
  memory.start = memory.end = kNow;
  session.raw(memory);
  session.add(Kernel{.end = 10, .correlation = 6, .stream = 3});
  session.add(Kernel{.end = 10, .correlation = 7, .stream = 250});
  session.make();
  REQUIRE(session.adds_up());
  std::map<int64_t, std::string> names;
  for (const Track& track : session.trace.tracks) {
    CHECK_FALSE(track.name.empty());
    names[track.tid] = track.name;
  }
  CHECK(names == std::map<int64_t, std::string>{{100, "Memcpy (HtoD)"},
                                                {200, "Memcpy (DtoH)"},
                                                {300, "Memcpy (PtoP)"},
                                                {400, "Memset"},
                                                {500, "Memory"},
                                                {3, "stream 3"},
                                                {100'250, "stream 250"}});
}

TEST_CASE("stream 0 gets the lowest number that no other stream has, whichever came first") {
  for (bool zero_first : {false, true}) {
    Session session;
    const Kernel zero{.name = "zero", .end = 10, .correlation = 1, .stream = 0};
    if (zero_first) session.add(zero);
    session.add(Kernel{.name = "one", .end = 10, .correlation = 2, .stream = 1});
    session.add(Kernel{.name = "three", .end = 10, .correlation = 3, .stream = 3});
    if (!zero_first) session.add(zero);
    session.make();
    CHECK(tid(session, session.kernel("one")) == 1);
    CHECK(tid(session, session.kernel("three")) == 3);
    CHECK(tid(session, session.kernel("zero")) == 2);
  }
}

TEST_CASE("more overlapping copies than tracks are kept and counted") {
  Session session;
  for (uint64_t i = 0; i < 7; ++i) session.add(Copy{.start = int64_t(i), .end = 100, .correlation = i + 1});
  session.make();
  std::set<int64_t> tids;
  for (const Event* event : session.all) tids.insert(tid(session, *event));
  CHECK(tids == std::set<int64_t>{100, 101, 102, 103, 104});
  CHECK(session.captured(Category::kMemcpy) == 7);
  CHECK(session.trace.tracks_exhausted == 2);
}

TEST_CASE("copies in any order end up on tracks without an overlap, and on no more tracks than overlap at once") {
  std::vector<Copy> copies;
  for (int i = 0; i < 200; ++i) {
    const int64_t start = (i * 7919) % 10'007;
    copies.push_back({.start = start, .end = start + 60, .correlation = static_cast<uint64_t>(i + 1)});
  }
  Session session;
  for (const Copy& copy : copies) session.add(copy);
  session.make();
  size_t most = 0;
  for (const Copy& at : copies) {
    most = std::max<size_t>(most, static_cast<size_t>(std::count_if(copies.begin(), copies.end(), [&](const Copy& c) {
                              return c.start <= at.start && at.start < c.end;
                            })));
  }
  REQUIRE(most <= 5);
  CHECK(tracks_are_clean(session));
  std::set<int64_t> tids;
  for (const Event* event : session.all) tids.insert(tid(session, *event));
  CHECK(tids.size() == most);
}

TEST_CASE("case 7: two devices have tracks of their own") {
  Session session;
  session.add(Kernel{.name = "a", .end = 10 * kUs, .correlation = 1, .device = 0});
  session.add(Kernel{.name = "b", .end = 20 * kUs, .correlation = 2, .device = 1});
  session.make();
  CHECK(session.trace.devices == std::vector<uint32_t>{0, 1});
  CHECK(session.track_of(session.kernel("a")).process == 0);
  CHECK(session.track_of(session.kernel("b")).process == 1);
  CHECK(tid(session, session.kernel("a")) == 1);
  CHECK(tid(session, session.kernel("b")) == 1);
  CHECK(session.trace.overlaps == 0);
}

TEST_CASE("ranges that cross on one stream go to two tracks; ranges that nest share one, the outer one first") {
  Session session;
  session.range(1, 0, 100, kThread);
  session.range(2, 10, 40, kThread);
  session.range(3, 0, 100, 777);
  session.add(Call{.start = 1, .end = 2, .correlation = 1});
  session.add(Call{.start = 20, .end = 21, .correlation = 2});
  session.add(Call{.start = 60, .end = 61, .correlation = 3});
  session.add(Call{.start = 30, .end = 31, .correlation = 4, .thread = 777});
  session.add(Call{.start = 80, .end = 81, .correlation = 5, .thread = 777});
  session.add(Kernel{.start = 100, .end = 200, .correlation = 1});
  session.add(Kernel{.start = 200, .end = 300, .correlation = 2});
  session.add(Kernel{.start = 300, .end = 400, .correlation = 4});
  session.add(Kernel{.start = 400, .end = 500, .correlation = 3});
  session.add(Kernel{.start = 500, .end = 600, .correlation = 5});
  session.make();
  std::map<uint64_t, std::string> tracks;
  std::vector<uint64_t> order;
  for (const DeviceRange& range : session.trace.ranges) {
    tracks[range.range_id] = session.trace.tracks[range.track].name;
    order.push_back(range.range_id);
  }
  CHECK(tracks ==
        std::map<uint64_t, std::string>{{1, "stream 1 ranges"}, {2, "stream 1 ranges"}, {3, "stream 1 ranges 2"}});
  CHECK(order == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("threads that run no ops get a name; the others are Kineto's to name") {
  Session session;
  session.op(7, 0, 100);
  session.add(Call{.end = 10, .correlation = 1});
  session.add(Call{.end = 10, .correlation = 2, .thread = 999});
  session.make();
  for (const Track& track : session.trace.tracks) {
    CHECK(track.process == kProcess);
    CHECK(track.name == (track.tid == 999 ? "thread 999 (no ops recorded)" : ""));
  }
}
