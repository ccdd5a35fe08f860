#include <cstring>
#include <string>
#include <vector>

#include "borrower.h"
#include <catch2/catch.hpp>

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
  CHECK(size == kBuffer);
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

TEST_CASE(
    "a buffer that comes back after the capture_result is counted in the next session, and its memory is not freed early") {
  start();
  uint8_t* first = borrow();
  uint8_t* second = borrow();
  on_buffer_completed(borrow(), kBuffer, 96);
  {
    const CaptureResult capture_result = finish();
    CHECK(capture_result.drops().buffers_not_returned == 2);
    CHECK(capture_result.buffers().size() == 1);
    std::memset(first, 1, kBuffer);  // libaiupti goes on writing
    on_buffer_completed(first, kBuffer, 96);
    on_buffer_completed(first, kBuffer, 96);
  }
  std::memset(second, 1, kBuffer);  // even after the trace was freed
  start();
  std::memset(second, 2, kBuffer);
  on_buffer_completed(second, kBuffer, kBuffer);
  on_buffer_completed(second, kBuffer, kBuffer);
  const CaptureResult next = finish();
  CHECK(next.drops().late_completions == 2);
  CHECK(next.drops().unknown_buffers == 2);
  CHECK(next.buffers().empty());

  start();
  const CaptureResult clean = finish();
  CHECK(clean.drops().late_completions == 0);
  CHECK(clean.drops().unknown_buffers == 0);
  CHECK(clean.drops().buffers_not_returned == 0);
}

TEST_CASE("callbacks with null pointers do nothing") {
  start();
  on_buffer_requested(nullptr, nullptr, nullptr);
  const CaptureResult capture_result = finish();
  CHECK(capture_result.drops().buffers_not_returned == 1);
}
