// Whose records: process ids and thread ids that are not the system's own.
#include <catch2/catch.hpp>

#include "trace/records.h"

namespace kineto_spyre::trace::testing {
namespace {

constexpr uint32_t kOther = 999'999;

bool no_process(uint32_t) { return false; }
bool any_process(uint32_t) { return true; }

// A launch and its kernel, by a process that calls itself so and a thread that does.
void launch(Session& session, int64_t at, uint64_t correlation, uint32_t process, uint32_t thread) {
  session.add(Call{.start = at, .end = at + 5, .correlation = correlation, .thread = thread, .process = process});
  session.add(Kernel{.start = at + 50, .end = at + 60, .correlation = correlation});
}

}  // namespace

TEST_CASE("one other process id in all records, which no process here has, is this program's") {
  Session session;
  session.options.process_exists = no_process;
  session.op(7, 0, 100 * kUs);
  launch(session, 10 * kUs, 1, kOther, 8);
  launch(session, 20 * kUs, 2, kOther, 8);
  const Trace& trace = session.make();
  REQUIRE(session.adds_up());
  CHECK(trace.other_process_id == kOther);
  CHECK(session.all.size() == 4);
  CHECK(session.invalid(InvalidReason::kForeignProcess) == 0);
  for (const Event* event : session.all) CHECK(session.op_of(*event) == 7);
}

TEST_CASE("one other process id in all records is this program's if a thread of them ran its ops") {
  Session session;
  session.options.process_exists = any_process;
  session.op(7, 0, 100 * kUs);
  launch(session, 10 * kUs, 1, kOther, kThread);
  CHECK(session.make().other_process_id == kOther);
  CHECK(session.all.size() == 2);
  CHECK(session.track_of(*session.all[0]).tid == kThread);
  CHECK(session.track_of(*session.all[0]).process == kProcess);
}

TEST_CASE("another process id is found where the buffer begins with device work, also with work of an unknown size") {
  for (const ptrdiff_t more : {0, 40}) {
    Session session;
    session.options.process_exists = no_process;
    AIUpti_ActivityCompute kernel{};
    kernel.kind = AIUPTI_ACTIVITY_KIND_CMPT;
    kernel.operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE;
    kernel.correlation_id = 1;
    kernel.start = static_cast<uint64_t>(kNow + 60);
    kernel.end = static_cast<uint64_t>(kNow + 70);
    session.raw(kernel, more);
    session.add(Call{.start = 10, .end = 15, .correlation = 1, .thread = 8, .process = kOther});
    CHECK(session.make().other_process_id == kOther);
    CHECK(session.all.size() == 2);
  }
}

TEST_CASE("a living process's records are not this program's") {
  for (bool (*exists)(uint32_t) :
       {static_cast<bool (*)(uint32_t)>(any_process), static_cast<bool (*)(uint32_t)>(nullptr)}) {
    Session session;
    session.options.process_exists = exists;
    session.op(7, 0, 100 * kUs);
    launch(session, 10 * kUs, 1, kOther, 8);
    CHECK(session.make().other_process_id == 0);
    CHECK(session.all.empty());
    CHECK(session.invalid(InvalidReason::kForeignProcess) == 2);
  }
}

TEST_CASE("beside records of this process, or of a second other one, none of another is this program's") {
  for (const uint32_t beside : {kProcess, kOther + 1, uint32_t{0}}) {
    Session session;
    session.options.process_exists = no_process;
    launch(session, 10 * kUs, 1, kOther, 8);
    launch(session, 20 * kUs, 2, beside, kThread);
    CHECK(session.make().other_process_id == 0);
    REQUIRE(session.adds_up());
    CHECK(session.all.size() == (beside == kOther + 1 ? 0 : 2));
  }
}

TEST_CASE("records of this process are found in whatever buffer they are") {
  Session session;
  session.options.process_exists = no_process;
  launch(session, 10 * kUs, 1, kOther, 8);
  session.new_buffer();
  session.add(Kernel{.start = 80 * kUs, .end = 90 * kUs, .correlation = 2});
  launch(session, 20 * kUs, 2, kProcess, kThread);
  CHECK(session.make().other_process_id == 0);
  CHECK(session.invalid(InvalidReason::kForeignProcess) == 2);
}

TEST_CASE("launches that name unknown threads are counted where several threads had an op open") {
  Session session;
  session.op(1, 0, 100 * kUs);
  session.op(2, 50 * kUs, 150 * kUs, 777);
  launch(session, 10 * kUs, 1, kProcess, 8);   // only the first thread's op is open
  launch(session, 60 * kUs, 2, kProcess, 8);   // both
  launch(session, 70 * kUs, 3, kProcess, 9);   // both
  launch(session, 120 * kUs, 4, kProcess, 9);  // only the second one's
  launch(session, 200 * kUs, 5, kProcess, 9);  // none
  const Trace& trace = session.make();
  CHECK(trace.launches_of_unknown_threads == 2);
  CHECK(trace.launches_without_op == 0);
  const auto calls = session.of(aiupti::Kind::kRuntime);
  CHECK(session.op_of(*calls.at(0)) == 1);
  CHECK(session.op_of(*calls.at(1)) == 0);
  CHECK(session.op_of(*calls.at(3)) == 2);
}

TEST_CASE("a thread whose ops are not recorded is no sign of wrong thread ids where others launch from theirs") {
  Session session;
  session.op(1, 0, 100 * kUs);
  session.op(2, 50 * kUs, 150 * kUs, 777);
  launch(session, 60 * kUs, 1, kProcess, 8);
  launch(session, 70 * kUs, 2, kProcess, 777);
  CHECK(session.make().launches_of_unknown_threads == 0);
}

}  // namespace kineto_spyre::trace::testing
