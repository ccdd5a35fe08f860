#include "trace/diagnostics.h"

#include <catch2/catch.hpp>

#include <set>

using namespace kineto_spyre::trace;

TEST_CASE("the same finding adds to its count, another detail is another finding, none is none") {
  Diagnostics found;
  found.add(Code::kRecordsDropped, 3);
  found.add(Code::kClockCorrected, 1, JsonObject().number("device", int64_t{0}).number("offset_ns", int64_t{-7}));
  found.add(Code::kClockCorrected, 1, JsonObject().number("device", int64_t{1}).number("offset_ns", int64_t{-7}));
  found.add(Code::kRecordsDropped, 4);
  found.add(Code::kBuffersLate, 0);
  CHECK(found.json() == R"([{"code": "records_dropped", "count": 7, "details": {}}, )"
                        R"({"code": "clock_corrected", "count": 1, "details": {"device": 0, "offset_ns": -7}}, )"
                        R"({"code": "clock_corrected", "count": 1, "details": {"device": 1, "offset_ns": -7}}])");
  CHECK(found.count(Code::kRecordsDropped) == 7);
  CHECK(found.count(Code::kClockCorrected) == 2);
  CHECK(found.count(Code::kBuffersLate) == 0);
}

TEST_CASE("a session is complete until something is found that means missing data") {
  Diagnostics found;
  CHECK(found.complete());
  CHECK(found.json() == "[]");
  found.add(Code::kLongKernels, 2);
  CHECK(found.complete());
  Diagnostics later;
  later.add(Code::kBufferRequestsRefused, 1);
  found.add(later);
  CHECK_FALSE(found.complete());
  CHECK(found.all().size() == 2);
}

TEST_CASE("text in details can't break the JSON") {
  Diagnostics found;
  found.add(Code::kInternalError, 1, JsonObject().text("doing", "say \"x\"\n\\"));
  CHECK(found.json() == R"([{"code": "internal_error", "count": 1, "details": {"doing": "say 'x' /"}}])");
}

TEST_CASE("each code has a name of its own") {
  std::set<std::string_view> names;
  for (const auto& facts : kineto_spyre::diagnostics::kCodes) names.insert(facts.name);
  CHECK(names.size() == kineto_spyre::diagnostics::kCodes.size());
  CHECK(kineto_spyre::diagnostics::name(Code::kLaunchesWithoutWork) == "launches_without_work");
}
