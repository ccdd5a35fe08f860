#include "trace/clock_alignment.h"

#include <cmath>
#include <random>

#include <catch2/catch.hpp>
#include "trace/records.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;
using namespace kineto_spyre::trace::testing;

namespace {

// A device whose clock shows host + offset + drift * (host - start of session), and a program that keeps it busy with
// bursts of kernels, each burst waited for. What the records say goes through that clock; what was true is kept.
struct Simulation {
  int64_t offset = 0;
  double drift = 0;
  bool waits = true;                 // calls that wait for the device
  bool tell_target = true;           // and say which device
  int64_t launch_latency = 5 * kUs;  // at least, from a launch's begin to its kernel's begin
  int64_t wake_latency = 40 * kUs;   // at least, from a kernel's end to the end of the wait
  int64_t seconds = 10;
  int burst = 20;

  std::vector<int64_t> launched;  // host clock, relative to kNow, by correlation id
  std::vector<int64_t> truth;     // begin of the kernel, likewise

  int64_t device(int64_t host) const {
    return host + offset + static_cast<int64_t>(std::llround(drift * static_cast<double>(host)));
  }

  void run(Session& session) {
    session.options.window_end = kNow + (seconds + 1) * kSecond;
    std::mt19937_64 random(7);
    const auto upto = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
    launched.assign(1, 0);
    truth.assign(1, 0);
    int64_t host = 0;
    int64_t free_at = 0;
    uint64_t correlation = 0;
    while (host < seconds * kSecond) {
      for (int i = 0; i < burst; ++i) {
        const int64_t begin = host;
        host += 2 * kUs + upto(3 * kUs);
        session.add(Call{.start = begin, .end = host, .correlation = ++correlation});
        const int64_t kernel = std::max(begin + launch_latency + upto(4 * kUs), free_at);
        free_at = kernel + 20 * kUs + upto(60 * kUs);
        session.add(Kernel{.start = device(kernel), .end = device(free_at), .correlation = correlation});
        launched.push_back(begin);
        truth.push_back(kernel);
        host += upto(20 * kUs);
      }
      if (waits) {
        const int64_t begin = host;
        host = std::max(host, free_at + wake_latency + upto(30 * kUs));
        session.add(Call{.cbid = kWait,
                         .start = begin,
                         .end = host,
                         .correlation = 1'000'000 + correlation,
                         .data = tell_target ? 0 : UINT64_MAX});
      }
      host += 5 * kMs + upto(10 * kMs);
    }
  }

  // Over all kernels: the worst error against the truth, and whether none is before its launch.
  std::pair<int64_t, bool> judge(const Session& session) const {
    int64_t worst = 0;
    bool after_launch = true;
    for (const Event* event : session.of(aiupti::Kind::kCompute)) {
      const uint64_t id = aiupti::correlation_id(event->record);
      worst = std::max(worst, std::abs(Session::start_of(*event) - truth.at(id)));
      after_launch = after_launch && Session::start_of(*event) >= launched.at(id);
    }
    return {worst, after_launch};
  }
};

}  // namespace

TEST_CASE("an offset of 5 ms either way and a drift of 50 ppm either way over 10 s are undone to 20 us") {
  for (int64_t offset : {-5 * kMs, 5 * kMs}) {
    for (double drift : {-50e-6, 0.0, 50e-6}) {
      for (bool tell_target : {true, false}) {
        INFO("offset " << offset << " ns, drift " << drift * 1e6 << " ppm, waits say their target: " << tell_target);
        Simulation simulation{.offset = offset, .drift = drift, .tell_target = tell_target};
        Session session(1 << 20);
        session.op_event(kThread, -kSecond, 0, capture::OpEventKind::kPopOp);  // the thread is known
        simulation.run(session);
        session.make();
        REQUIRE(session.adds_up());
        REQUIRE(session.trace.clocks.size() == 1);
        CHECK(session.trace.clocks[0].applied);
        CHECK(session.trace.early == 0);
        const auto [worst, after_launch] = simulation.judge(session);
        CHECK(after_launch);
        CHECK(worst <= 20 * kUs);
        CHECK(session.trace.overlaps == 0);
        WARN("offset " << offset << ", drift " << drift * 1e6 << " ppm: worst error " << worst << " ns");
      }
    }
  }
}

TEST_CASE("without waits, a device that is ahead can't be told from a slow one, and is left alone") {
  Simulation simulation{.offset = 5 * kMs, .waits = false, .seconds = 1};
  Session session(1 << 20);
  simulation.run(session);
  session.make();
  CHECK_FALSE(session.trace.clocks.at(0).applied);
  CHECK(session.trace.clocks.at(0).earliest_ns >= 5 * kMs);
}

TEST_CASE("without waits, a device that is behind is moved") {
  Simulation simulation{.offset = -5 * kMs, .drift = 50e-6, .waits = false};
  Session session(1 << 20);
  simulation.run(session);
  session.make();
  const auto [worst, after_launch] = simulation.judge(session);
  CHECK(session.trace.clocks.at(0).applied);
  CHECK(after_launch);
  CHECK(worst <= 20 * kUs);
}

TEST_CASE("a right clock is left alone, to the nanosecond") {
  Simulation simulation{};
  Session session(1 << 20);
  simulation.run(session);
  session.make();
  CHECK_FALSE(session.trace.clocks.at(0).applied);
  CHECK(simulation.judge(session).first == 0);
  CHECK(session.trace.early == 0);
}

TEST_CASE("waits that don't wait are not believed") {
  Simulation simulation{.seconds = 1};
  Session session(1 << 20);
  simulation.run(session);
  // Calls under the wait's id that return at once, while the device is busy.
  for (size_t i = 1; i < simulation.launched.size(); i += 20) {
    session.add(Call{.cbid = kWait,
                     .start = simulation.launched[i] + 8 * kUs,
                     .end = simulation.launched[i] + 9 * kUs,
                     .correlation = 2'000'000 + i,
                     .data = 0});
  }
  session.make();
  CHECK_FALSE(session.trace.clocks.at(0).applied);
  CHECK(simulation.judge(session).first == 0);
}

TEST_CASE("KINETO_SPYRE_CLOCK_ALIGN=off keeps the times and reports what is before its launch") {
  Session session;
  session.options.align_clocks = false;
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1});
  session.add(Kernel{.name = "early", .start = 9 * kUs, .end = 20 * kUs, .correlation = 1});
  session.make();
  CHECK(Session::start_of(session.kernel("early")) == 9 * kUs);
  CHECK(session.kernel("early").has(Event::kEarly));
  CHECK(session.trace.early == 1);
  CHECK(session.trace.first_early == "'early'");
  CHECK_FALSE(session.trace.clocks.at(0).applied);
}

TEST_CASE("case 4: a kernel 1 us before its launch is aligned") {
  Session session;
  session.add(Call{.start = 10 * kUs, .end = 11 * kUs, .correlation = 1});
  session.add(Kernel{.name = "early", .start = 9 * kUs, .end = 20 * kUs, .correlation = 1});
  session.make();
  CHECK(Session::start_of(session.kernel("early")) == 10 * kUs);
  CHECK(Session::duration_of(session.kernel("early")) == 11 * kUs);
  CHECK(session.trace.early == 0);
  CHECK(session.trace.clocks.at(0).applied);
  CHECK(session.trace.clocks.at(0).offset_ns == -1 * kUs);
}

TEST_CASE("one wrong record does not move a device's clock") {
  Session session;
  for (uint64_t i = 1; i <= 5; ++i) {
    const auto at = static_cast<int64_t>(i) * kMs;
    session.add(Call{.start = at, .end = at + kUs, .correlation = i});
    session.add(Kernel{.name = std::to_string(i),
                       .start = i == 3 ? at - 3600 * kSecond : at + 5 * kUs,
                       .end = at + 10 * kUs,
                       .correlation = i});
  }
  session.make();
  CHECK_FALSE(session.trace.clocks.at(0).applied);
  CHECK(Session::start_of(session.kernel("1")) == kMs + 5 * kUs);
  CHECK(session.trace.early == 1);
  CHECK(session.kernel("3").has(Event::kEarly));
}

TEST_CASE("each device has a clock of its own") {
  Session session;
  for (uint32_t device : {0U, 1U}) {
    for (uint64_t i = 1; i <= 3; ++i) {
      const auto at = static_cast<int64_t>(i) * kMs;
      session.add(Call{.start = at, .end = at + kUs, .correlation = i + device * 10});
      session.add(Kernel{.name = std::to_string(i + device * 10),
                         .start = at + (device == 1 ? -2 * kMs : 5 * kUs),
                         .end = at + 10 * kUs,
                         .correlation = i + device * 10,
                         .device = device});
    }
  }
  session.make();
  CHECK_FALSE(session.trace.clocks.at(0).applied);
  CHECK(session.trace.clocks.at(1).applied);
  CHECK(session.trace.clocks.at(1).offset_ns == -2 * kMs);
  CHECK(Session::start_of(session.kernel("12")) == 2 * kMs);
  CHECK(Session::start_of(session.kernel("2")) == 2 * kMs + 5 * kUs);
}

TEST_CASE("aligned work keeps its order and stays back to back") {
  const DeviceClock clock{.applied = true, .offset_ns = 12'345, .drift_ppm = 49.7, .reference_ns = kNow};
  std::mt19937_64 random(3);
  int64_t at = kNow - 5 * kSecond;
  int64_t last = to_host(clock, at);
  for (int i = 0; i < 100'000; ++i) {
    at += static_cast<int64_t>(random() % 200'000);
    const int64_t now = to_host(clock, at);
    REQUIRE(now >= last);
    last = now;
  }
}
