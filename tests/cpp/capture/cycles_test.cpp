// Sessions one after the other, with producers that take no notice of them.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "capture/clock.h"
#include "capture/op_events.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

constexpr int kCycles = kSanitizer || kQemu ? 1'000 : 10'000;

// A thread that pushes one id after the other, each id once, and says how far it is, with a full fence: the next push
// looks at the gate after everybody can see that this one is done. (A sequentially consistent store is no such fence:
// on Power nothing comes after it.)
struct Pusher {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> done{0};
  std::atomic<int32_t> tid{0};
  std::thread thread{[this] {
    tid = gettid();
    for (uint64_t id = 1; !stop.load(std::memory_order_relaxed); ++id) {
      push_op(id);
      done.store(id, std::memory_order_seq_cst);
      // Partner: the opening of the gate, and the load of `done` after it.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (id % 256 == 0) std::this_thread::yield();
    }
  }};
};

size_t resident_bytes() {
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  long size = 0, resident = 0;
  if (statm == nullptr || std::fscanf(statm, "%ld %ld", &size, &resident) != 2) resident = 0;
  if (statm != nullptr) std::fclose(statm);
  return static_cast<size_t>(resident) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a stop that races producers misses no op event of its window and admits none from outside") {
  const bool fast_path = GENERATE(true, false);
  Pusher pushers[2];
  for (Pusher& pusher : pushers) {
    while (pusher.done == 0) std::this_thread::yield();
  }
  Config config;
  config.budget_bytes = 256 << 10;
  config.buffer_bytes = 64 << 10;
  std::string error;
  uint64_t missing = 0, out_of_window = 0, gaps = 0, total = 0, refused_to_start = 0;
  for (int cycle = 0; cycle < kCycles / (fast_path ? 1 : 10); ++cycle) {
    if (!prepare(config, &error)) {
      ++refused_to_start;
      continue;
    }
    allow_fast_path(fast_path);
    const int64_t before_open = unix_ns();
    open_window();
    uint64_t after_open[2], before_close[2], after_close[2];
    for (int i = 0; i < 2; ++i) after_open[i] = pushers[i].done.load();
    if (cycle % 4 != 0) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) before_close[i] = pushers[i].done.load();
    close_window();
    for (int i = 0; i < 2; ++i) after_close[i] = pushers[i].done.load();
    const int64_t after_closed = unix_ns();
    const CaptureResult capture_result = kineto_spyre::capture::take_result();

    for (int i = 0; i < 2; ++i) {
      const ThreadOpEvents* mine = nullptr;
      for (const ThreadOpEvents& thread : capture_result.threads()) {
        if (thread.tid == pushers[i].tid) mine = &thread;
      }
      // The push after `after_open` may have begun before the window opened.
      const uint64_t must_begin = after_open[i] + 2;
      const uint64_t must_end = before_close[i];
      const uint64_t must = must_end >= must_begin ? must_end - must_begin + 1 : 0;
      if (mine == nullptr) {
        missing += must != 0;
        continue;
      }
      const std::vector<OpEvent>& events = mine->events;
      total += events.size();
      missing += events.size() + mine->dropped < must;
      if (events.empty()) continue;  // the other thread took all the room
      for (size_t n = 1; n < events.size(); ++n) gaps += events[n].id != events[n - 1].id + 1;
      missing += must != 0 && events.front().id > must_begin;
      missing += must != 0 && events.back().id + mine->dropped < must_end;
      out_of_window += events.back().id > after_close[i] + 1;
      // Stamps are converted to the clock, which is wrong by a few ns: a microsecond is not the question here.
      out_of_window += events.front().ns < before_open - 1000 || events.back().ns > after_closed + 1000;
    }
  }
  for (Pusher& pusher : pushers) {
    pusher.stop = true;
    pusher.thread.join();
  }
  allow_fast_path(true);
  CHECK(refused_to_start == 0);
  CHECK(missing == 0);
  CHECK(out_of_window == 0);
  CHECK(gaps == 0);
  CHECK(total > 0);
}

TEST_CASE("sessions start and stop while libaiupti's threads borrow and return, and every record is accounted for") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&stop, t] {
      while (!stop.load(std::memory_order_relaxed)) {
        Borrower borrower(t);
        for (int i = 0; i < 40; ++i) borrower.write();
        borrower.give_back();
        std::this_thread::yield();
      }
    });
  }
  Config config;
  config.budget_bytes = 256 << 10;
  config.buffer_bytes = 64 << 10;
  std::string error;
  uint64_t torn = 0, unknown = 0, wrong = 0, buffers = 0;
  for (int cycle = 0; cycle < kCycles / 5; ++cycle) {
    if (!prepare(config, &error)) continue;
    open_window();
    if (cycle % 2 != 0) std::this_thread::yield();
    close_window();
    const CaptureResult capture_result = kineto_spyre::capture::take_result();
    for (const Buffer& buffer : capture_result.buffers()) {
      wrong += buffer.valid > 40 * sizeof(TestRecord) || buffer.valid % sizeof(TestRecord) != 0;
      for (size_t at = 0; at + sizeof(TestRecord) <= buffer.valid; at += sizeof(TestRecord)) {
        torn += !whole(*reinterpret_cast<const TestRecord*>(buffer.data + at));
      }
    }
    unknown += capture_result.drops().unknown_buffers;
    buffers += capture_result.buffers().size();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  REQUIRE(prepare(config, &error));
  const CaptureResult last = kineto_spyre::capture::take_result();
  unknown += last.drops().unknown_buffers;
  CHECK(torn == 0);
  CHECK(wrong == 0);
  CHECK(unknown == 0);
  CHECK(buffers > 0);
  CHECK(last.drops().buffers_not_returned == 0);
}

TEST_CASE("a thousand sessions leave nothing behind") {
  std::string error;
  Config config;
  config.budget_bytes = 4 << 20;
  size_t before = 0;
  for (int session = 0; session < 1'050; ++session) {
    if (session == 50) before = resident_bytes();
    REQUIRE(prepare(config, &error));
    open_window();
    Borrower borrower(1);
    for (int i = 0; i < 3'000; ++i) borrower.write();
    for (int i = 0; i < 2'000; ++i) push_op(1);
    borrower.give_back();
    close_window();
    const CaptureResult capture_result = kineto_spyre::capture::take_result();
    REQUIRE(capture_result.buffers().size() == 1);
    REQUIRE(capture_result.threads()[0].events.size() == 2'000);
  }
  const size_t after = resident_bytes();
  INFO("resident before " << before << ", after " << after);
  if (!kSanitizer && !kQemu) CHECK(after < before + (1 << 20));
}
