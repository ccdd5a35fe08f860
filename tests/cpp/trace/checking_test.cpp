#include <catch2/catch.hpp>
#include "trace/records.h"
#include "trace/text.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;
using namespace kineto_spyre::trace::testing;

namespace {

AIUpti_ActivityCompute compute(int64_t start, int64_t end, uint32_t correlation = 1) {
  AIUpti_ActivityCompute record{};
  record.kind = AIUPTI_ACTIVITY_KIND_CMPT;
  record.stream_id = 1;
  record.correlation_id = correlation;
  record.start = static_cast<uint64_t>(start);
  record.end = static_cast<uint64_t>(end);
  std::strcpy(record.name, "kernel");
  return record;
}

}  // namespace

TEST_CASE("case 4: start 0 and end before start are invalid, duration 0 kept, 1.2 s kept and flagged") {
  Session session;
  session.raw(compute(0, kNow));
  session.raw(compute(kNow + 10, kNow + 9));
  session.add(Kernel{.name = "zero", .start = 20, .end = 20, .correlation = 3});
  session.add(Kernel{.name = "long", .start = 30, .end = 30 + 1'200 * kMs, .correlation = 4});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.all.size() == 2);
  CHECK(session.invalid(InvalidReason::kStartZero) == 1);
  CHECK(session.invalid(InvalidReason::kEndBeforeStart) == 1);
  CHECK(Session::duration_of(session.kernel("zero")) == 0);
  CHECK(session.kernel("long").has(Event::kLong));
  CHECK_FALSE(session.kernel("zero").has(Event::kLong));
  CHECK(session.trace.long_kernels == 1);
  CHECK(session.trace.first_long == "'long'");
}

TEST_CASE("a time more than a day from the session is invalid") {
  Session session;
  session.raw(compute(5, 10));
  session.raw(compute(kNow + 100'000 * kSecond, kNow + 100'001 * kSecond));
  session.raw(compute(kNow, kNow + 100'000 * kSecond));
  AIUpti_ActivityCompute beyond = compute(kNow, kNow);
  beyond.end = UINT64_MAX;
  session.raw(beyond);
  session.make();
  CHECK(session.invalid(InvalidReason::kUnreasonableTime) == 4);
  CHECK(session.all.empty());
  CHECK(session.adds_up());
}

TEST_CASE("an unknown kind is invalid, and what comes after it is not") {
  Session session;
  AIUpti_ActivityCompute unknown = compute(kNow, kNow + 1);
  unknown.kind = 77;
  session.raw(unknown);
  unknown.kind = AIUPTI_ACTIVITY_KIND_INVALID;
  session.raw(unknown);
  session.add(Kernel{.name = "after", .end = 10, .correlation = 2});
  // The iterator of the tests takes 64 bytes for what it doesn't know, so tell it better.
  session.new_buffer();
  unknown.kind = 78;
  session.raw(unknown, 8);
  session.add(Kernel{.name = "last", .end = 10, .correlation = 3, .stream = 2});
  session.make();
  CHECK(session.invalid(InvalidReason::kUnknownKind) >= 3);
  CHECK(session.kernel("last").id > kIdBase);
  CHECK(session.adds_up());
}

TEST_CASE("longer records are read by their known prefix, and both sizes are told") {
  Session session;
  for (uint32_t i = 1; i <= 3; ++i) session.raw(compute(kNow + i * 10, kNow + i * 10 + 5, i), 40);
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.captured(Category::kKernel) == 3);
  CHECK(session.trace.sizes[static_cast<size_t>(aiupti::Kind::kCompute)].seen == sizeof(AIUpti_ActivityCompute) + 40);
  CHECK(session.trace.sizes[static_cast<size_t>(aiupti::Kind::kCompute)].built == sizeof(AIUpti_ActivityCompute));
}

namespace {

// Compute records that are `less` bytes shorter than this build's, calls between them, and one at the end of the
// buffer.
void add_shorter(Session& session, size_t less) {
  const ptrdiff_t more = -static_cast<ptrdiff_t>(less);
  for (uint32_t i = 1; i <= 3; ++i) {
    session.raw(compute(kNow + i * 10, kNow + i * 10 + 5, i), more);
    session.add(Call{.start = i * 10, .end = i * 10 + 5, .correlation = i});
  }
  session.raw(compute(kNow + 40, kNow + 45, 4), more);
  session.make();
}

}  // namespace

TEST_CASE("records of an older release, which have all but the cycle stamps, are read") {
  Session session;
  const size_t least = aiupti::least_size_of(aiupti::Kind::kCompute);
  add_shorter(session, sizeof(AIUpti_ActivityCompute) - least);
  REQUIRE(session.adds_up());
  CHECK(session.captured(Category::kKernel) == 4);
  CHECK(session.captured(Category::kRuntime) == 3);
  CHECK(session.trace.total_invalid() == 0);
  CHECK(session.trace.sizes[static_cast<size_t>(aiupti::Kind::kCompute)].seen == least);
  for (const Event* event : session.of(aiupti::Kind::kCompute)) {
    CHECK(event->has(Event::kShort) == (least != sizeof(AIUpti_ActivityCompute)));
  }
}

TEST_CASE("records that lack what every release has are invalid by kind; other kinds are read") {
  Session session;
  add_shorter(session, sizeof(AIUpti_ActivityCompute) - aiupti::least_size_of(aiupti::Kind::kCompute) + 8);
  REQUIRE(session.adds_up());
  CHECK(session.captured(Category::kKernel) == 0);
  CHECK(session.captured(Category::kRuntime) == 3);
  CHECK(session.invalid(InvalidReason::kShorterRecord) == 4);
}

TEST_CASE("the same record twice is invalid once") {
  Session session;
  session.add(Call{.start = 0, .end = 5, .correlation = 1});
  session.add(Call{.start = 0, .end = 5, .correlation = 1});
  session.add(Kernel{.start = 10, .end = 20, .correlation = 1});
  session.add(Kernel{.start = 10, .end = 20, .correlation = 1});
  session.add(Copy{.start = 10, .end = 20, .correlation = 2});
  session.add(Copy{.start = 10, .end = 20, .correlation = 2});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.invalid(InvalidReason::kDuplicate) == 3);
  CHECK(session.all.size() == 3);
  CHECK(session.trace.overlaps == 0);
}

TEST_CASE("an iteration that an earlier session broke off is run out, and begun again") {
  Session session;
  session.add(Kernel{.name = "a", .start = 0, .end = 10, .correlation = 1});
  session.add(Kernel{.name = "b", .start = 10, .end = 20, .correlation = 2});
  static bool broken;
  broken = true;
  session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    if (std::exchange(broken, false)) TestIterator::next(buffer, valid, record);  // as if someone had begun before
    return TestIterator::next(buffer, valid, record);
  };
  session.make();
  CHECK(session.all.size() == 2);
  CHECK(session.trace.unfinished_reads == 0);
}

TEST_CASE("null, stray and misaligned pointers from the iterator are invalid, and the iteration goes on to its end") {
  Session session;
  session.add(Kernel{.name = "a", .start = 0, .end = 10, .correlation = 1});
  session.add(Kernel{.name = "b", .start = 10, .end = 20, .correlation = 2});
  static int step;
  step = 0;
  static uint64_t elsewhere[64] = {AIUPTI_ACTIVITY_KIND_CMPT};
  session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    switch (step++) {
      case 1:
        *record = nullptr;
        return AIUPTI_SUCCESS;
      case 2:
        *record = reinterpret_cast<AIUpti_Activity*>(elsewhere);
        return AIUPTI_SUCCESS;
      case 3:
        *record = reinterpret_cast<AIUpti_Activity*>(buffer + 1);
        return AIUPTI_SUCCESS;
      default:
        return TestIterator::next(buffer, valid, record);
    }
  };
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.invalid(InvalidReason::kMalformed) == 3);
  CHECK(session.all.size() == 2);
}

TEST_CASE("an iterator that goes back is not followed, so that no record is corrected twice") {
  Session session;
  session.add(Call{.start = 100, .end = 105, .correlation = 1});
  session.add(Kernel{.start = 50, .end = 60, .correlation = 1});  // a clock that is 50 ns behind
  static int step;
  static AIUpti_Activity* last;
  step = 0;
  session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    if (++step == 3) {
      *record = last;
      return AIUPTI_SUCCESS;
    }
    const AIUpti_ResultTypes result = TestIterator::next(buffer, valid, record);
    if (result == AIUPTI_SUCCESS) last = *record;
    return result;
  };
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.invalid(InvalidReason::kMalformed) == 1);
  const auto kernels = session.of(aiupti::Kind::kCompute);
  REQUIRE(kernels.size() == 1);
  CHECK(session.trace.clocks.at(0).offset_ns == -50);
  CHECK(Session::start_of(*kernels[0]) == 100);
}

TEST_CASE("an iterator that never ends is stopped and counted") {
  Session session;
  session.add(Kernel{.start = 0, .end = 10, .correlation = 1});
  session.next_record = [](uint8_t* buffer, size_t, AIUpti_Activity** record) {
    *record = reinterpret_cast<AIUpti_Activity*>(buffer);
    return AIUPTI_SUCCESS;
  };
  session.make();
  CHECK(session.adds_up());
  CHECK(session.trace.unfinished_reads == 1);
}

TEST_CASE("any result but success ends a full buffer, and the buffer is read once") {
  for (const int code : {1, 2, 3, 99, -1}) {
    Session session(2 * sizeof(AIUpti_ActivityCompute));
    session.add(Kernel{.name = "a", .start = 0, .end = 10, .correlation = 1});
    session.add(Kernel{.name = "b", .start = 10, .end = 20, .correlation = 2});
    static int end_code;
    end_code = code;
    session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
      const AIUpti_ResultTypes result = TestIterator::next(buffer, valid, record);
      return result == AIUPTI_SUCCESS ? result : static_cast<AIUpti_ResultTypes>(end_code);
    };
    session.make();
    INFO("code " << code);
    CHECK(session.adds_up());
    CHECK(session.trace.records_read == 2);
    CHECK(session.trace.total_invalid() == 0);
    CHECK(session.trace.unfinished_reads == 0);
  }
}

TEST_CASE("after an error of the iterator the iteration goes on to its end") {
  Session session;
  session.add(Kernel{.start = 0, .end = 10, .correlation = 1});
  session.add(Kernel{.start = 10, .end = 20, .correlation = 2});
  static int step;
  step = 0;
  session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    return step++ == 1 ? AIUPTI_ERROR_INVALID_KIND : TestIterator::next(buffer, valid, record);
  };
  session.make();
  CHECK(session.trace.unfinished_reads == 1);
  CHECK(session.all.size() == 2);
}

TEST_CASE("an iterator that returns errors only is given up, and what it returned is kept") {
  Session session;
  session.add(Kernel{.start = 0, .end = 10, .correlation = 1});
  session.add(Kernel{.start = 10, .end = 20, .correlation = 2});
  static int step;
  step = 0;
  session.next_record = [](uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    return step++ == 0 ? TestIterator::next(buffer, valid, record) : AIUPTI_ERROR_UNKNOWN;
  };
  session.make();
  CHECK(session.trace.unfinished_reads == 1);
  CHECK(session.all.size() == 1);
}

TEST_CASE("window: a kernel belongs to where its launch belongs, however late it runs") {
  Session session;
  session.add(Call{.start = -20, .end = -15, .correlation = 1});
  session.add(Call{.start = 5, .end = 8, .correlation = 2});
  session.add(Kernel{.name = "of warm-up, late", .start = 10, .end = 20, .correlation = 1});
  session.add(Kernel{.name = "ours", .start = 20, .end = 30, .correlation = 2});
  session.add(Kernel{.name = "of warm-up, launch forgotten", .start = 30, .end = 40, .correlation = 3, .queued = -10});
  session.add(Kernel{.name = "unlaunched, before", .start = -5, .end = 40, .correlation = 4, .stream = 2});
  session.add(Kernel{.name = "unlaunched, inside", .start = 50, .end = 60, .correlation = 5, .stream = 2});
  session.add(
      Kernel{.name = "unlaunched, across the end", .start = 60, .end = 11 * kSecond, .correlation = 6, .stream = 2});
  session.make();
  REQUIRE(session.adds_up());
  // A release that doesn't tell when work was queued leaves nothing to know the forgotten launch by.
  const uint64_t forgotten = tells_queued<AIUpti_ActivityCompute> ? 1 : 0;
  CHECK(session.trace.out_of_window == 4 + forgotten);
  CHECK(session.captured(Category::kKernel) == 3 - forgotten);
  CHECK(session.kernel("ours").has(Event::kFlow));
  CHECK_FALSE(session.kernel("unlaunched, inside").has(Event::kFlow));
}

TEST_CASE("window: a kernel without a launch is not thrown away for a `queued` of another clock") {
  Session session;
  session.add(Kernel{.name = "of uptime", .start = 30, .end = 40, .correlation = 1, .queued = 3600 * kSecond - kNow});
  session.add(Kernel{.name = "of ticks", .start = 50, .end = 60, .correlation = 2, .queued = 1 - kNow});
  session.make();
  CHECK(session.captured(Category::kKernel) == 2);
  CHECK(session.trace.out_of_window == 0);
}

TEST_CASE("window: a kernel that was launched inside and ran on after the end is kept") {
  Session session;
  session.add(Call{.start = 9 * kSecond, .end = 9 * kSecond + 5, .correlation = 1});
  session.add(Kernel{.start = 9 * kSecond + 10, .end = 10 * kSecond + 5, .correlation = 1});
  session.make();
  CHECK(session.all.size() == 2);
}

TEST_CASE("what the user did not ask for is joined with, and not shown") {
  Session session;
  session.options.wanted = {true, false, false, false, false, false};
  session.op(7, 0, 100);
  session.add(Call{.start = 5, .end = 8, .correlation = 1});
  session.add(Kernel{.name = "k", .start = 10, .end = 20, .correlation = 1});
  session.add(Copy{.start = 10, .end = 20, .correlation = 2});
  session.make();
  REQUIRE(session.adds_up());
  CHECK(session.all.size() == 1);
  CHECK(session.trace.not_requested == 2);
  CHECK(session.op_of(session.kernel("k")) == 7);
  CHECK_FALSE(session.kernel("k").has(Event::kFlow));  // an arrow from nowhere
}

TEST_CASE("calls of an unknown id are kept and counted") {
  Session session;
  session.add(Call{.cbid = 4711, .start = 5, .end = 8, .correlation = 1});
  session.add(Call{.start = 9, .end = 10, .correlation = 2});
  session.make();
  CHECK(session.trace.unknown_calls == 1);
  CHECK(session.all.size() == 2);
}

TEST_CASE("launches without any device work are counted") {
  const auto missing = [](bool work, bool wanted) {
    Session session;
    session.options.wanted[static_cast<size_t>(Category::kKernel)] = wanted;
    session.add(Call{.cbid = kMalloc, .start = 1, .end = 2, .correlation = 1});
    session.add(Call{.start = 5, .end = 8, .correlation = 2});
    session.add(Call{.start = 9, .end = 10, .correlation = 3});
    if (work) session.add(Kernel{.name = "k", .start = 10, .end = 20, .correlation = 2});
    session.make();
    return session.trace.launches_without_work;
  };
  CHECK(missing(false, true) == 2);
  CHECK(missing(true, true) == 0);
  CHECK(missing(false, false) == 0);
}

TEST_CASE("no buffers, empty buffers, a valid size beyond the size") {
  Session session;
  session.make();
  CHECK(session.trace.records_read == 0);
  session.new_buffer();
  session.make();
  CHECK(session.trace.records_read == 0);

  Session beyond(sizeof(AIUpti_ActivityCompute));
  beyond.add(Kernel{.end = 10, .correlation = 1});
  beyond.make();
  CHECK(beyond.all.size() == 1);
}

TEST_CASE("names come out as printable ASCII without quotes and backslashes") {
  CHECK(safe_text("aten::mm") == "aten::mm");
  CHECK(safe_text("a\"b\\c") == "a'b/c");
  CHECK(safe_text(std::string_view("a\0b\n\x7f", 5)) == "a b  ");
  CHECK(safe_text("k\xC3\xA4se \xE2\x82\xAC \xF0\x9F\x98\x80") == "k<U+00E4>se <U+20AC> <U+1F600>");
  CHECK(safe_text("\xFF\xC3(\xED\xA0\x80\xC0\x80\xF5") == "<0xFF><0xC3>(<0xED><0xA0><0x80><0xC0><0x80><0xF5>");
  CHECK(safe_text("\xE2\x82") == "<0xE2><0x82>");
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    for (char out : safe_text(std::string_view(&c, 1))) {
      CHECK((out >= ' ' && out <= '~' && out != '"' && out != '\\'));
    }
  }
}

TEST_CASE("the provenance key of a compiled kernel's name") {
  CHECK(provenance_key("spyre_kernel_v1_mm_add_abcdefghijkl2345#0") == "abcdefghijkl2345");
  CHECK(provenance_key("spyre_kernel_v1_mm_abcdefghijkl2345#12") == "abcdefghijkl2345");
  CHECK(provenance_key("spyre_kernel_v1_mm_abcdefghijkl2345") == "");
  CHECK(provenance_key("spyre_kernel_v1_mm_abcdefghijkl2341#0") == "");
  CHECK(provenance_key("spyre_kernel_v1_mm_ABCDEFGHIJKL2345#0") == "");
  CHECK(provenance_key("spyre_kernel_v1_#0") == "");
  CHECK(provenance_key("mm#0") == "");
}
