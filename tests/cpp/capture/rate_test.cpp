// Records come fast: what the budget holds is not dropped for want of speed.
//
// The short form writes a million compute-sized records as fast as it can, with the default configuration. With
// KINETO_SPYRE_TEST_RATE=1 the full rates are run: 1 million a second for 4 seconds within the default budget, and
// 5 million a second for 2 seconds within 4 GiB.
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include <catch2/catch.hpp>
#include "capture/capture.h"
#include "capture/clock.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

constexpr size_t kRecord = 232;

struct Outcome {
  uint64_t dropped = 0;  // requests that got no buffer
  uint64_t delivered = 0;
  double seconds = 0;
};

// per_second 0: as fast as it goes.
Outcome write(const Config& config, uint64_t records, double per_second) {
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  Outcome outcome;
  uint8_t* buffer = nullptr;
  size_t size = 0, at = 0, max_records = 0;
  const int64_t begin = unix_ns();
  for (uint64_t i = 0; i < records; ++i) {
    if (per_second != 0 && i % 1000 == 0) {
      while (static_cast<double>(unix_ns() - begin) * 1e-9 * per_second < static_cast<double>(i)) sched_yield();
    }
    if (buffer == nullptr || at + kRecord > size) {
      if (buffer != nullptr) on_buffer_completed(buffer, size, at);
      on_buffer_requested(&buffer, &size, &max_records);
      at = 0;
    }
    std::memset(buffer + at, static_cast<int>(i), kRecord);
    at += kRecord;
  }
  outcome.seconds = static_cast<double>(unix_ns() - begin) * 1e-9;
  if (buffer != nullptr) on_buffer_completed(buffer, size, at);
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  for (const Buffer& each : capture_result.buffers()) outcome.delivered += each.valid / kRecord;
  outcome.dropped = capture_result.drops().requests_without_buffer;
  return outcome;
}

}  // namespace

TEST_CASE("a million records as fast as they can be written are all delivered, with the default configuration") {
  const uint64_t records = kSanitizer || kQemu ? 100'000 : 1'000'000;
  const Outcome outcome = write(Config(), records, 0);
  CHECK(outcome.dropped == 0);
  CHECK(outcome.delivered == records);
}

TEST_CASE("a million records a second for four seconds, and five million for two, with none dropped") {
  if (std::getenv("KINETO_SPYRE_TEST_RATE") == nullptr) SKIP_TEST("KINETO_SPYRE_TEST_RATE is not set");
  const Outcome one = write(Config(), 4'000'000, 1e6);
  CHECK(one.dropped == 0);
  CHECK(one.delivered == 4'000'000);
  Config large;
  large.budget_bytes = size_t{4} << 30;
  const Outcome five = write(large, 10'000'000, 5e6);
  CHECK(five.dropped == 0);
  CHECK(five.delivered == 10'000'000);
  WARN("4,000,000 records in " << one.seconds << " s, 10,000,000 in " << five.seconds << " s");
}
