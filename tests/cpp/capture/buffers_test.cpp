#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

constexpr size_t kBuffer = 64 * 1024;

void start() {
  Config config;
  config.budget_bytes = 4 * kBuffer;
  config.buffer_bytes = kBuffer;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
}

CaptureResult finish() {
  close_window();
  return take_result();
}

uint8_t* borrow() {
  uint8_t* buffer = nullptr;
  size_t size = 0;
  size_t max_records = 0;
  on_buffer_requested(&buffer, &size, &max_records);
  REQUIRE(buffer != nullptr);
  CHECK(size <= kBuffer);
  CHECK(size >= 16 * 1024);
  return buffer;
}

}  // namespace

TEST_CASE("a buffer that was never lent is invalid and counted") {
  start();
  uint8_t stranger[64] = {};
  on_buffer_completed(stranger, sizeof(stranger), sizeof(stranger));
  on_buffer_completed(nullptr, 0, 0);
  uint8_t* buffer = borrow();
  on_buffer_completed(buffer + 8, kBuffer, 8);     // within a buffer of ours
  on_buffer_completed(buffer + 4096, kBuffer, 8);  // where another one could begin
  on_buffer_completed(buffer, kBuffer, 96);
  on_buffer_completed(buffer, kBuffer, 96);  // for the second time
  const CaptureResult capture_result = finish();
  CHECK(capture_result.drops().unknown_buffers == 5);
  REQUIRE(capture_result.buffers().size() == 1);
  CHECK(capture_result.buffers()[0].data == buffer);
  CHECK(capture_result.buffers()[0].valid == 96);
}

TEST_CASE("a valid size beyond the size is counted and read up to the size") {
  start();
  on_buffer_completed(borrow(), kBuffer, kBuffer + 1);
  on_buffer_completed(borrow(), kBuffer, SIZE_MAX);
  const CaptureResult capture_result = finish();
  CHECK(capture_result.drops().oversized == 2);
  REQUIRE(capture_result.buffers().size() == 2);
  CHECK(capture_result.buffers()[0].valid == kBuffer);
  CHECK(capture_result.buffers()[1].valid == kBuffer);
}

TEST_CASE("an empty buffer is lent again") {
  start();
  for (int i = 0; i < 100; ++i) on_buffer_completed(borrow(), kBuffer, 0);
  const CaptureResult capture_result = finish();
  CHECK(capture_result.buffers().empty());
  CHECK(capture_result.drops().requests_without_buffer == 0);
}

TEST_CASE("what a flush leaves of a buffer is lent again, so that flushes don't eat the budget") {
  Config config;
  config.budget_bytes = 4 << 20;
  config.buffer_bytes = 1 << 20;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  Borrower borrower(1);
  for (int i = 0; i < 800; ++i) {
    borrower.write();
    borrower.give_back();
  }
  const CaptureResult capture_result = finish();
  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  CHECK(delivered.records[1] == 800);
  CHECK(delivered.inversions == 0);
  CHECK(capture_result.drops().requests_without_buffer == 0);
}

TEST_CASE("a buffer that comes back in a later session belongs to that one, and comes first") {
  start();
  uint8_t* held = borrow();
  on_buffer_completed(borrow(), kBuffer, 96);
  {
    const CaptureResult first = finish();
    CHECK(first.drops().buffers_not_returned == 0);  // nothing was written to it
    CHECK(first.buffers().size() == 1);
  }
  std::memset(held, 1, 16 * 1024);  // even after the first session's result is gone
  start();
  uint8_t* of_second = borrow();
  on_buffer_completed(of_second, kBuffer, 96);
  on_buffer_completed(held, kBuffer, 192);
  on_buffer_completed(held, kBuffer, 192);  // a second time
  {
    const CaptureResult second = finish();
    REQUIRE(second.buffers().size() == 2);
    CHECK(second.buffers()[0].data == held);
    CHECK(second.buffers()[0].valid == 192);
    CHECK(held[191] == 1);
    CHECK(second.buffers()[1].data == of_second);
    CHECK(second.drops().late_completions == 0);
    CHECK(second.drops().unknown_buffers == 1);
    start();  // while the second session's result lives
    CHECK(finish().buffers().empty());
    CHECK(held[191] == 1);
  }
  start();
  const CaptureResult clean = finish();
  CHECK(clean.buffers().empty());
  CHECK(clean.drops().unknown_buffers == 0);
}

TEST_CASE("a library that takes its next buffer at each flush, as if sessions were one, delivers all of each session") {
  uint8_t* held = nullptr;
  for (int session = 0; session < 100; ++session) {
    start();
    if (held == nullptr) held = borrow();
    auto* record = reinterpret_cast<TestRecord*>(held);
    fill(record[0], 1, static_cast<uint64_t>(session));
    fill(record[1], 1, 1000 + static_cast<uint64_t>(session));
    on_buffer_completed(held, kBuffer, 2 * sizeof(TestRecord));
    held = borrow();  // the flush at stop
    const CaptureResult result = finish();
    REQUIRE(result.buffers().size() == 1);
    const auto* records = reinterpret_cast<const TestRecord*>(result.buffers()[0].data);
    CHECK(result.buffers()[0].valid == 2 * sizeof(TestRecord));
    CHECK((whole(records[0]) && records[0].sequence == static_cast<uint64_t>(session)));
    CHECK((whole(records[1]) && records[1].sequence == 1000 + static_cast<uint64_t>(session)));
    CHECK(result.drops().buffers_not_returned == 0);
    CHECK(result.drops().late_completions == 0);
  }
  on_buffer_completed(held, kBuffer, 0);
}

TEST_CASE("a buffer that comes back between two sessions is counted in the next one, and one that never does is told") {
  start();
  uint8_t* first = borrow();
  uint8_t* second = borrow();
  std::memset(first, 1, 96);
  std::memset(second, 1, 96);
  CHECK(finish().drops().buffers_not_returned == 2);
  on_buffer_completed(first, kBuffer, 96);
  on_buffer_completed(first, kBuffer, 96);
  on_buffer_completed(second, kBuffer, 0);
  start();
  const CaptureResult next = finish();
  CHECK(next.drops().late_completions == 1);
  CHECK(next.drops().unknown_buffers == 1);
  CHECK(next.buffers().empty());
}

TEST_CASE("what an earlier session's buffer holds when a window opens is warm-up's") {
  start();
  uint8_t* held = borrow();
  finish();
  Config config;
  config.budget_bytes = 4 * kBuffer;
  config.buffer_bytes = kBuffer;
  std::string error;
  REQUIRE(prepare(config, &error));
  std::memset(held, 1, 96);
  on_buffer_completed(held, kBuffer, 96);
  open_window();
  const CaptureResult result = finish();
  CHECK(result.buffers().empty());
  CHECK(result.drops().late_completions == 0);
}

TEST_CASE("over budget each request gets memory, and nothing that is written there is taken for a record") {
  Config config;
  config.budget_bytes = config.buffer_bytes = kBuffer;
  config.count_records = count_test_records;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  uint8_t* real = borrow();
  std::set<uint8_t*> scratch;
  size_t size = 0, max_records = 0;
  constexpr int kRequests = 20;
  std::vector<uint8_t*> lent(kRequests);
  for (uint8_t*& buffer : lent) {
    on_buffer_requested(&buffer, &size, &max_records);
    REQUIRE(buffer != nullptr);
    REQUIRE(size >= 10 * sizeof(TestRecord));
    std::memset(buffer, 1, size);
    scratch.insert(buffer);
  }
  CHECK(scratch.count(real) == 0);
  const size_t shared = kRequests - scratch.size();  // those beyond one share the last piece
  for (uint8_t* buffer : lent) on_buffer_completed(buffer, size, 10 * sizeof(TestRecord));
  on_buffer_completed(real, kBuffer, 96);
  const CaptureResult result = finish();
  REQUIRE(result.buffers().size() == 1);
  CHECK(result.buffers()[0].data == real);
  CHECK(result.drops().requests_without_buffer == kRequests);
  CHECK(result.drops().records_dropped == 10 * (scratch.size() - 1));
  CHECK(result.drops().uncounted_buffers == shared + 1);
  CHECK(result.drops().unknown_buffers == 0);
}

TEST_CASE("many that borrow at once share the budget, and memory that comes back is lent again") {
  Config config;
  config.budget_bytes = 64 << 20;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<uint8_t*, size_t>> lent(100);
    size_t sum = 0, max_records = 0;
    for (auto& [buffer, size] : lent) {
      on_buffer_requested(&buffer, &size, &max_records);
      buffer[0] = 1;
      sum += size;
    }
    CHECK(sum <= config.budget_bytes);
    if (round == 0) CHECK(lent[0].second == config.buffer_bytes);
    for (auto& [buffer, size] : lent) on_buffer_completed(buffer, size, 96);
  }
  const CaptureResult result = finish();
  CHECK(result.buffers().size() == 300);
  CHECK(result.drops().requests_without_buffer == 0);
}

TEST_CASE("callbacks with null pointers do nothing") {
  start();
  on_buffer_requested(nullptr, nullptr, nullptr);
  const CaptureResult capture_result = finish();
  CHECK(capture_result.buffers().empty());
}
