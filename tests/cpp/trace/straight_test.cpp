#include <random>

#include <catch2/catch.hpp>
#include "trace/records.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;
using namespace kineto_spyre::trace::testing;

namespace {

// The same session twice, with and without the straight ways. Records are corrected in place, so it is written twice.
template <class Write>
std::vector<std::string> both_ways(Write write) {
  Session straight(4096);
  write(straight);
  straight.make();
  Session longer(4096);
  longer.options.straight_ways = false;
  write(longer);
  longer.options.straight_ways = false;
  longer.make();
  REQUIRE(straight.adds_up());
  const std::vector<std::string> lines = straight.shown();
  const std::vector<std::string> expected = longer.shown();
  REQUIRE(lines.size() == expected.size());
  for (size_t i = 0; i < lines.size(); ++i) REQUIRE(lines[i] == expected[i]);
  return lines;
}

// CorrelationTable and kernels as they mostly are, and before the last two of them whatever `odd` adds.
template <class Odd>
void usual_but(Session& session, Odd odd) {
  session.op(7, -10, 10'000);
  session.range(70, -10, 10'000);
  for (uint64_t id = 1; id <= 6; ++id) {
    const auto at = static_cast<int64_t>(id) * 100;
    session.add(Call{.start = at, .end = at + 10, .correlation = id});
  }
  odd(session);
  session.add(Call{.start = 650, .end = 655, .correlation = 7});
  session.new_buffer();
  for (uint64_t id = 1; id <= 7; ++id) {
    const auto at = static_cast<int64_t>(id) * 100;
    session.add(Kernel{.start = at + 20, .end = at + 60, .correlation = id});
  }
}

}  // namespace

TEST_CASE("the straight way of the usual session is the long one") {
  const auto lines = both_ways([](Session& session) { usual_but(session, [](Session&) {}); });
  CHECK(std::ranges::count_if(lines, [](const std::string& line) { return line.find("op 7") != line.npos; }) == 14);
}

TEST_CASE("what is odd about a call takes it the slow path") {
  const std::vector<std::pair<const char*, std::function<void(Session&)>>> odds = {
      {"another process", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 20, .process = 1}); }},
      {"another thread", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 20, .thread = 5}); }},
      {"no thread", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 20, .thread = 0}); }},
      {"no id", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 0}); }},
      {"an id that is known", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 3}); }},
      {"an earlier launch", [](Session& s) { s.add(Call{.start = 290, .end = 295, .correlation = 3}); }},
      {"the same again", [](Session& s) { s.add(Call{.start = 300, .end = 310, .correlation = 3}); }},
      {"before the window", [](Session& s) { s.add(Call{.start = -50, .end = 5, .correlation = 20}); }},
      {"after the window",
       [](Session& s) { s.add(Call{.start = 11 * kSecond, .end = 11 * kSecond, .correlation = 20}); }},
      {"a driver call", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 20, .driver = true}); }},
      {"no launch", [](Session& s) { s.add(Call{.cbid = kNodeCompute, .start = 700, .end = 705, .correlation = 20}); }},
      {"an unknown call", [](Session& s) { s.add(Call{.cbid = 255, .start = 700, .end = 705, .correlation = 20}); }},
      {"a number beyond all",
       [](Session& s) { s.add(Call{.cbid = 70'000, .start = 700, .end = 705, .correlation = 20}); }},
      {"an id far away", [](Session& s) { s.add(Call{.start = 700, .end = 705, .correlation = 3'000'000'000}); }},
      {"a wait that tells of a clock ahead",
       [](Session& s) { s.add(Call{.cbid = kWait, .start = 630, .end = 640, .correlation = 20, .data = 0}); }},
  };
  for (const auto& [name, odd] : odds) {
    INFO(name);
    both_ways([&](Session& session) { usual_but(session, odd); });
  }
  SECTION("runtime calls not asked for") {
    both_ways([](Session& session) {
      session.options.wanted[static_cast<size_t>(Category::kRuntime)] = false;
      usual_but(session, [](Session&) {});
    });
  }
}

TEST_CASE("what is odd about a kernel takes it the slow path") {
  const std::vector<std::pair<const char*, std::function<void(Session&)>>> odds = {
      {"another stream", [](Session& s) { s.add(Kernel{.start = 705, .end = 780, .correlation = 6, .stream = 2}); }},
      {"another device", [](Session& s) { s.add(Kernel{.start = 705, .end = 780, .correlation = 6, .device = 1}); }},
      {"an overlap", [](Session& s) { s.add(Kernel{.start = 750, .end = 780, .correlation = 6}); }},
      {"out of order", [](Session& s) { s.add(Kernel{.start = 205, .end = 210, .correlation = 1}); }},
      {"the same again", [](Session& s) { s.add(Kernel{.start = 720, .end = 760, .correlation = 7}); }},
      {"no launch", [](Session& s) { s.add(Kernel{.start = 770, .end = 780, .correlation = 99}); }},
      {"no id", [](Session& s) { s.add(Kernel{.start = 770, .end = 780, .correlation = 0}); }},
      {"before its launch", [](Session& s) { s.add(Kernel{.start = 800, .end = 801, .correlation = 7}); }},
      {"over a second", [](Session& s) { s.add(Kernel{.start = 770, .end = 2 * kSecond, .correlation = 6}); }},
      {"an id far away", [](Session& s) { s.add(Kernel{.start = 770, .end = 780, .correlation = 3'000'000'000}); }},
      {"no duration", [](Session& s) { s.add(Kernel{.start = 760, .end = 760, .correlation = 6}); }},
      {"no duration, twice",
       [](Session& s) {
         s.add(Kernel{.start = 770, .end = 770, .correlation = 5});
         s.add(Kernel{.start = 770, .end = 770, .correlation = 6});
       }},
  };
  for (const auto& [name, odd] : odds) {
    INFO(name);
    both_ways([&](Session& session) {
      usual_but(session, [](Session&) {});
      odd(session);
      session.add(Kernel{.start = 3 * kSecond, .end = 3 * kSecond + 10, .correlation = 6});
    });
  }
  SECTION("a launch outside of the window") {
    both_ways([](Session& session) {
      session.options.window_begin = kNow + 350;
      usual_but(session, [](Session&) {});
    });
  }
  SECTION("launches not asked for") {
    both_ways([](Session& session) {
      session.options.wanted[static_cast<size_t>(Category::kRuntime)] = false;
      usual_but(session, [](Session&) {});
    });
  }
  SECTION("kernels not asked for") {
    both_ways([](Session& session) {
      session.options.wanted[static_cast<size_t>(Category::kKernel)] = false;
      usual_but(session, [](Session&) {});
    });
  }
  SECTION("a launch that another process made first") {
    both_ways([](Session& session) {
      usual_but(session, [](Session& s) { s.add(Call{.start = 1, .end = 2, .correlation = 8, .process = 9}); });
      session.add(Kernel{.start = 2000, .end = 2010, .correlation = 8});
    });
  }
}

TEST_CASE("random sessions come out the same both ways") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    both_ways([&](Session& session) {
      std::mt19937 random(seed);
      const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
      int64_t at = 0;
      for (int i = 0; i < 200; ++i) {
        at += below(40);
        const uint64_t id = static_cast<uint64_t>(i) / 3 + below(6);
        switch (below(12)) {
          case 0:
            session.op(1000 + i, at, at + below(200), below(8) == 0 ? 5 : kThread);
            break;
          case 1:
            session.range(5000 + i, at, at + below(400));
            break;
          case 2:
          case 3:
          case 4:
          case 5:
            session.add(Call{.cbid = below(10) == 0 ? below(90) : kLaunch,
                             .start = at,
                             .end = at + below(20),
                             .correlation = id,
                             .thread = below(12) == 0 ? 5 : kThread,
                             .process = below(40) == 0 ? 1 : kProcess,
                             .driver = below(10) == 0});
            break;
          case 6:
            session.add(Copy{.start = at, .end = at + below(30), .correlation = id, .stream = below(3)});
            break;
          case 7:
            session.new_buffer();
            break;
          default:
            session.add(Kernel{.start = at + 10 + below(20),
                               .end = at + 40 + below(20),
                               .correlation = id,
                               .stream = below(10) == 0 ? 2U : 1U,
                               .device = below(20) == 0 ? 1U : 0U});
        }
      }
      if (below(3) == 0) session.options.window_begin = kNow + 500;
      if (below(2) == 0) session.reverse();
    });
  }
}
