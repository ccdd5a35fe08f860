#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "capture/op_events.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

TEST_CASE("ten thousand short threads share a few blocks of op events, and each one's are its own") {
  const bool fast_path = GENERATE(true, false);
  Config config;
  config.budget_bytes = 128 << 20;
  config.buffer_bytes = 64 << 10;
  std::string error;
  REQUIRE(prepare(config, &error));
  allow_fast_path(fast_path);
  open_window();
  constexpr uint64_t kThreads = 10'000;
  constexpr uint64_t kTogether = 8;
  std::vector<std::atomic<int32_t>> tids(kThreads);
  for (uint64_t first = 0; first < kThreads; first += kTogether) {
    std::vector<std::thread> threads;
    for (uint64_t t = first; t < first + kTogether; ++t) {
      threads.emplace_back([&tids, t] {
        tids[t] = gettid();
        Borrower borrower(t);
        push_op(t + 1);
        push_range(t + 1);
        borrower.write();
        borrower.give_back();
        pop_range();
        pop_op();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  close_window();
  allow_fast_path(true);
  const CaptureResult capture_result = kineto_spyre::capture::take_result();

  CHECK(capture_result.threads().size() == kThreads);
  uint64_t wrong = 0;
  for (const ThreadOpEvents& thread : capture_result.threads()) {
    if (thread.events.size() != 4 || thread.dropped != 0) {
      ++wrong;
      continue;
    }
    const uint64_t id = thread.events[0].id;
    wrong += id == 0 || id > kThreads || tids[id - 1] != thread.tid || thread.events[1].id != id;
  }
  CHECK(wrong == 0);
  CHECK(capture_result.drops().op_events_dropped == 0);
  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  CHECK(delivered.records.size() == kThreads);
  CHECK(delivered.total() == kThreads);
}

TEST_CASE("the rest of a thread's block serves the threads after it") {
  OpEventStore store;
  std::string error;
  REQUIRE(store.map(1, &error));  // one block
  for (uint32_t tid = 1; tid <= 340; ++tid) {
    OpEventStore::Thread* thread = store.enter(tid);
    REQUIRE(thread != nullptr);
    OpEventStore::Room room = store.take(thread);
    REQUIRE(room.begin != nullptr);
    *room.begin++ = {tid, tid << 3 | 1};
    *room.begin++ = {tid, tid << 3 | 2};
    store.give_back(room);
  }
  CHECK(store.count() == 680);
  const auto threads = store.collect(TickConverter({0, 0, 0}, {1, 1, 0}));
  REQUIRE(threads.size() == 340);
  CHECK(threads[339].tid == 340);
  REQUIRE(threads[339].events.size() == 2);
  CHECK(threads[339].events[0].id == 340);
  // 1,023 places hold 341 headers and 682 events: one thread more, and it is full.
  OpEventStore::Thread* last = store.enter(341);
  CHECK(store.take(last).begin != nullptr);
  CHECK(store.take(store.enter(342)).begin == nullptr);
}

TEST_CASE("a thread may live through many sessions, and push in a destructor after its slot was given back") {
  struct AtExit {
    ~AtExit() {
      push_op(99);
      pop_op();
    }
  };
  std::atomic<int> step{0};
  std::thread thread([&] {
    thread_local AtExit at_exit;
    static_cast<void>(&at_exit);
    for (int session = 1; session <= 5; ++session) {
      while (step < 2 * session - 1) std::this_thread::yield();
      push_op(static_cast<uint64_t>(session));
      pop_op();
      ++step;
    }
  });
  std::string error;
  Config config;
  config.budget_bytes = 1 << 20;
  for (int session = 1; session <= 5; ++session) {
    REQUIRE(prepare(config, &error));
    open_window();
    ++step;
    while (step < 2 * session) std::this_thread::yield();
    if (session == 5) thread.join();
    close_window();
    const CaptureResult capture_result = kineto_spyre::capture::take_result();
    size_t events = 0;
    for (const ThreadOpEvents& of_thread : capture_result.threads()) events += of_thread.events.size();
    CHECK(events == (session == 5 ? 4 : 2));
    REQUIRE(!capture_result.threads().empty());
    CHECK(capture_result.threads()[0].events[0].id == static_cast<uint64_t>(session));
  }
}
