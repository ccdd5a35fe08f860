#include <cstring>
#include <string>

#include <catch2/catch.hpp>
#include "borrower.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

Config small() {
  Config config;
  config.budget_bytes = 4 << 20;
  return config;
}

CaptureResult finish() {
  close_window();
  return take_result();
}

}  // namespace

TEST_CASE("a session delivers what was written to its buffers, and the op events of its threads") {
  std::string error;
  REQUIRE(prepare(small(), &error));
  CHECK(armed());
  open_window();
  Borrower borrower(7);
  push_op(41);
  for (int i = 0; i < 10'000; ++i) borrower.write();
  pop_op();
  push_range(42);
  pop_range();
  borrower.give_back();
  const CaptureResult capture_result = finish();

  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  CHECK(delivered.records[7] == 10'000);
  CHECK(delivered.torn == 0);
  CHECK(delivered.inversions == 0);
  REQUIRE(capture_result.threads().size() == 1);
  const ThreadOpEvents& of_thread = capture_result.threads()[0];
  REQUIRE(of_thread.events.size() == 4);
  CHECK(of_thread.events[0].id == 41);
  CHECK(of_thread.events[0].kind == OpEventKind::kPushOp);
  CHECK(of_thread.events[1].kind == OpEventKind::kPopOp);
  CHECK(of_thread.events[2].id == 42);
  CHECK(of_thread.events[2].kind == OpEventKind::kPushRange);
  CHECK(of_thread.events[3].kind == OpEventKind::kPopRange);
  for (size_t i = 1; i < 4; ++i) CHECK(of_thread.events[i - 1].ns <= of_thread.events[i].ns);
  CHECK(capture_result.drops().op_events_dropped == 0);
  CHECK(capture_result.drops().requests_without_buffer == 0);
  CHECK(!armed());
}

TEST_CASE("of a burst of 1,500 records a capacity of 1,024 delivers the first 1,024, and the next session is clean") {
  for (const int burst : {1500, 1000}) {
    Config config;
    config.budget_bytes = config.buffer_bytes = 1024 * sizeof(TestRecord);
    config.count_records = count_test_records;
    std::string error;
    REQUIRE(prepare(config, &error));
    open_window();
    Borrower borrower(1);
    for (int i = 0; i < burst; ++i) borrower.write();
    borrower.give_back();
    const CaptureResult capture_result = finish();

    Delivered delivered;
    for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
    CHECK(delivered.records[1] == (burst == 1500 ? 1024 : 1000));
    CHECK(delivered.next[1] == (burst == 1500 ? 1024 : 1000));
    CHECK(capture_result.drops().records_dropped == (burst == 1500 ? 476 : 0));
    CHECK(capture_result.drops().requests_without_buffer == (burst == 1500 ? 1 : 0));
    CHECK(capture_result.drops().uncounted_buffers == 0);
  }
}

TEST_CASE("records of the warm-up are thrown away and their buffers lent again") {
  Config config;
  config.budget_bytes = 8 * 64 * 1024;
  config.buffer_bytes = 64 * 1024;
  std::string error;
  REQUIRE(prepare(config, &error));
  Borrower early(1);
  for (int i = 0; i < 100'000; ++i) early.write();  // far more than there is room for
  early.give_back();
  push_op(1);
  open_window();
  Borrower borrower(2);
  for (int i = 0; i < 1000; ++i) borrower.write();
  borrower.give_back();
  const CaptureResult capture_result = finish();

  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  CHECK(delivered.records[1] == 0);
  CHECK(delivered.records[2] == 1000);
  CHECK(capture_result.drops().requests_without_buffer == 0);
  CHECK(capture_result.threads().empty());
}

TEST_CASE("a second capture is refused with a sentence while one is under way") {
  std::string error;
  REQUIRE(prepare(small(), &error));
  CHECK_FALSE(prepare(small(), &error));
  CHECK(error.find("one at a time") != std::string::npos);
  abandon();
  CHECK(prepare(small(), &error));
  abandon();
  CHECK_FALSE(armed());
}

TEST_CASE("out of order calls do nothing") {
  open_window();
  close_window();
  CHECK(take_result().buffers().empty());
  abandon();
  push_op(1);
  pop_op();
  uint8_t* buffer = nullptr;
  size_t size = 1;
  size_t max_records = 1;
  on_buffer_requested(&buffer, &size, &max_records);
  REQUIRE(buffer != nullptr);  // never null, but thrown away
  CHECK(max_records == 0);
  std::memset(buffer, 1, size);
  on_buffer_completed(buffer, size, size);
  CHECK(take_result().threads().empty());
}
