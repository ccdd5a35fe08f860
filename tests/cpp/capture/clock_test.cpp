#include "capture/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <vector>

#include <catch2/catch.hpp>

using namespace kineto_spyre::capture;

namespace {

void nap(long ns) {
  const timespec duration{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

TEST_CASE("a converter meets both of its points and is straight between them") {
  const ClockPoint first{1'000, 1'700'000'000'000'000'000, 4};
  const ClockPoint second{1'000 + 180'000'000'000, 1'700'000'000'000'000'000 + 60'000'000'000, 6};
  const TickConverter converter(first, second);
  CHECK(converter.to_ns(first.ticks) == first.ns);
  CHECK(converter.to_ns(second.ticks) == second.ns);
  CHECK(converter.to_ns(1'000 + 90'000'000'000) == first.ns + 30'000'000'000);
  CHECK(converter.to_ns(1'000 + 3) == first.ns + 1);
  CHECK(converter.to_ns(1'000 - 3) == first.ns - 1);
  CHECK(converter.error_ns() == Approx(1.0));
}

TEST_CASE("two points at one tick do no harm") {
  const ClockPoint point{5, 77, 1};
  CHECK(TickConverter(point, point).to_ns(5) == 77);
}

// The stamps of op events against clock_gettime, over a window of a quarter second; KINETO_SPYRE_TEST_CLOCK_SECONDS=60
// is the long form, whose figure is what the documentation states. What is compared is not how long anything took: each
// sample is a bracket of its own, and its width is allowed for.
TEST_CASE("between two points the counter tells the time as the clock does") {
  const char* text = std::getenv("KINETO_SPYRE_TEST_CLOCK_SECONDS");
  const double seconds = text != nullptr ? std::strtod(text, nullptr) : 0.25;
  const ClockPoint opened = clock_point();
  std::vector<ClockPoint> samples;
  for (int i = 0; i < 50; ++i) {
    nap(static_cast<long>(seconds / 50 * 1e9));
    samples.push_back(clock_point());
  }
  const ClockPoint closed = clock_point();
  const TickConverter converter(opened, closed);
  double worst = 0, beyond = 0;
  for (const ClockPoint& sample : samples) {
    const double difference = std::abs(static_cast<double>(converter.to_ns(sample.ticks) - sample.ns));
    worst = std::max(worst, difference);
    const double ns_per_tick =
        static_cast<double>(closed.ns - opened.ns) / static_cast<double>(closed.ticks - opened.ticks);
    const double allowed = converter.error_ns() + 0.5 * ns_per_tick * static_cast<double>(sample.bracket);
    beyond = std::max(beyond, difference - allowed);
  }
  if (text != nullptr) WARN("over " << seconds << " s at most " << worst << " ns apart");
  // A clock that is being slewed (at most 500 ppm) bends the line: 25 ns is for a clock that is left alone.
  CHECK(beyond <= 25);
}
