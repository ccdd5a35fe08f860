// produced = delivered + dropped, exactly; no record torn, doubled or out of its producer's order.
//
// Short by default. KINETO_SPYRE_TEST_RECORDS sets how many records each case produces (1e8 for the long form).
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "capture/pool.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

uint64_t records_to_produce() {
  const char* text = std::getenv("KINETO_SPYRE_TEST_RECORDS");
  return text != nullptr ? static_cast<uint64_t>(std::strtod(text, nullptr)) : 400'000;
}

struct Counts {
  std::atomic<uint64_t> produced{0};
  std::atomic<uint64_t> dropped{0};  // by producers that were told that there is no buffer
};

void compare(uint64_t produced, uint64_t dropped, const Delivered& delivered) {
  INFO("produced " << produced << ", delivered " << delivered.total() << ", dropped " << dropped);
  CHECK(produced == delivered.total() + dropped);
  CHECK(delivered.torn == 0);
  CHECK(delivered.inversions == 0);
}

}  // namespace

TEST_CASE("a session with room for everything delivers everything, from 1 to 8 threads") {
  const int threads = GENERATE(1, 2, 3, 8);
  const uint64_t each = records_to_produce() / static_cast<uint64_t>(threads);
  Config config;
  config.buffer_bytes = GENERATE(size_t{256} << 10, size_t{32} << 20);
  // A flush leaves a rest that is too small to be lent.
  constexpr uint64_t kFlushEvery = 10'007;
  const size_t rests = (each / kFlushEvery + 1) * (Pool::kWorthLending + Pool::kGranule);
  config.budget_bytes = static_cast<size_t>(threads) * (each * sizeof(TestRecord) + rests + 2 * config.buffer_bytes);
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  Counts counts;
  std::vector<std::thread> producers;
  for (int t = 0; t < threads; ++t) {
    producers.emplace_back([&, t] {
      Borrower borrower(static_cast<uint64_t>(t));
      for (uint64_t i = 0; i < each; ++i) {
        borrower.write();
        if (i % kFlushEvery == 0) borrower.give_back();  // a flush: the buffer comes back with little in it
      }
      borrower.give_back();
      counts.produced += borrower.produced();
    });
  }
  for (std::thread& producer : producers) producer.join();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  compare(counts.produced, 0, delivered);
  CHECK(capture_result.drops().requests_without_buffer == 0);
}

TEST_CASE("what comes when the budget is used up is counted record by record, from 1 to 8 threads") {
  const int threads = GENERATE(1, 2, 4, 8);
  const uint64_t each = records_to_produce() / 4 / static_cast<uint64_t>(threads);
  Config config;
  config.budget_bytes = 1 << 20;
  config.buffer_bytes = 256 << 10;
  config.count_records = count_test_records;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  Counts counts;
  std::vector<std::thread> producers;
  for (int t = 0; t < threads; ++t) {
    producers.emplace_back([&, t] {
      Borrower borrower(static_cast<uint64_t>(t));
      for (uint64_t i = 0; i < each; ++i) borrower.write();
      borrower.give_back();
      counts.produced += borrower.produced();
    });
  }
  for (std::thread& producer : producers) producer.join();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  Delivered delivered;
  size_t bytes = 0;
  for (const Buffer& buffer : capture_result.buffers()) {
    delivered.add(buffer);
    bytes += buffer.valid;
  }
  const Drops& drops = capture_result.drops();
  CHECK(bytes <= config.budget_bytes);
  CHECK(drops.requests_without_buffer > 0);
  CHECK(drops.records_dropped > 0);
  CHECK(delivered.torn == 0);
  CHECK(drops.uncounted_buffers == 0);
  compare(counts.produced, drops.records_dropped, delivered);
}

TEST_CASE("buffers that are read and lent again while producers run drop nothing that isn't counted") {
  const int threads = GENERATE(1, 2, 4, 8);
  const uint64_t each = records_to_produce() / static_cast<uint64_t>(threads);
  Pool pool;
  std::string error;
  REQUIRE(pool.map(size_t{12} * 64 * 1024, 64 * 1024, &error));  // few, so that it runs dry now and then

  Counts counts;
  std::atomic<int> running{threads};
  std::vector<std::thread> producers;
  for (int t = 0; t < threads; ++t) {
    producers.emplace_back([&, t] {
      Buffer buffer{};
      size_t at = 0;
      uint64_t dropped = 0;
      for (uint64_t i = 0; i < each; ++i) {
        if (buffer.data == nullptr || at + sizeof(TestRecord) > buffer.size) {
          if (buffer.data != nullptr) pool.complete(buffer.data, at);
          buffer = pool.lend();
          at = 0;
          if (buffer.data == nullptr) std::this_thread::yield();
        }
        if (buffer.data == nullptr) {
          ++dropped;
          continue;
        }
        fill(*reinterpret_cast<TestRecord*>(buffer.data + at), static_cast<uint64_t>(t), i);
        at += sizeof(TestRecord);
      }
      if (buffer.data != nullptr) pool.complete(buffer.data, at);
      counts.produced += each;
      counts.dropped += dropped;
      --running;
    });
  }
  Delivered delivered;
  bool last = false;
  while (!last) {
    last = running == 0;  // and then everything that was completed is there
    pool.take_returned([&](uint32_t index, const Buffer& buffer) {
      delivered.add(buffer);
      pool.recycle(index);
    });
    if (!last) std::this_thread::yield();
  }
  for (std::thread& producer : producers) producer.join();
  compare(counts.produced, counts.dropped, delivered);
  CHECK(delivered.total() > 0);
}

TEST_CASE("op events that find no room are counted, and those that did are the first of their thread") {
  Config config;
  config.budget_bytes = 4 << 20;  // a quarter of it for op events: 64 blocks
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  constexpr int kThreads = 4;
  const uint64_t each = records_to_produce() / 8;
  std::vector<std::thread> producers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (uint64_t i = 1; i <= each; ++i) {
        push_op(static_cast<uint64_t>(t) << 40 | i);
        pop_op();
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();

  REQUIRE(capture_result.threads().size() == kThreads);
  uint64_t kept = 0, dropped = 0, wrong = 0, backwards = 0;
  for (const ThreadOpEvents& thread : capture_result.threads()) {
    CHECK(thread.events.size() + thread.dropped == 2 * each);
    kept += thread.events.size();
    dropped += thread.dropped;
    const uint64_t producer = thread.events.empty() ? 0 : thread.events[0].id >> 40;
    for (size_t i = 0; i < thread.events.size(); ++i) {
      const OpEvent& event = thread.events[i];
      wrong += event.kind != (i % 2 == 0 ? OpEventKind::kPushOp : OpEventKind::kPopOp);
      wrong += event.id != (i % 2 == 0 ? (producer << 40 | (i / 2 + 1)) : 0);
      backwards += i > 0 && event.ns < thread.events[i - 1].ns;
    }
  }
  CHECK(wrong == 0);
  CHECK(backwards == 0);
  CHECK(kept + dropped == 2 * kThreads * each);
  CHECK(kept > 60'000);  // 64 blocks of 1,023, less the headers
  CHECK(dropped > 0);
  CHECK(capture_result.drops().op_events_dropped == dropped);
}
