#include <cstring>
#include <string>
#include <vector>

#include "borrower.h"
#include "catch2/catch.hpp"

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

Harvest finish() {
  close_window();
  return harvest();
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

TEST_CASE("a buffer that was never lent is refused and counted") {
  start();
  uint8_t stranger[64] = {};
  on_buffer_completed(stranger, sizeof(stranger), sizeof(stranger));
  on_buffer_completed(nullptr, 0, 0);
  uint8_t* buffer = borrow();
  on_buffer_completed(buffer + 8, kBuffer, 8);     // within a buffer of ours
  on_buffer_completed(buffer + 4096, kBuffer, 8);  // where another one could begin
  on_buffer_completed(buffer, kBuffer, 96);
  on_buffer_completed(buffer, kBuffer, 96);  // for the second time
  const Harvest harvest = finish();
  CHECK(harvest.losses().unknown_buffers == 5);
  REQUIRE(harvest.buffers().size() == 1);
  CHECK(harvest.buffers()[0].data == buffer);
  CHECK(harvest.buffers()[0].valid == 96);
}

TEST_CASE("a valid size beyond the size is counted and read up to the size") {
  start();
  on_buffer_completed(borrow(), kBuffer, kBuffer + 1);
  on_buffer_completed(borrow(), kBuffer, SIZE_MAX);
  const Harvest harvest = finish();
  CHECK(harvest.losses().oversized == 2);
  REQUIRE(harvest.buffers().size() == 2);
  CHECK(harvest.buffers()[0].valid == kBuffer);
  CHECK(harvest.buffers()[1].valid == kBuffer);
}

TEST_CASE("an empty buffer is lent again") {
  start();
  for (int i = 0; i < 100; ++i) on_buffer_completed(borrow(), kBuffer, 0);
  const Harvest harvest = finish();
  CHECK(harvest.buffers().empty());
  CHECK(harvest.losses().requests_refused == 0);
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
  const Harvest harvest = finish();
  Delivered delivered;
  for (const Buffer& buffer : harvest.buffers()) delivered.add(buffer);
  CHECK(delivered.records[1] == 800);
  CHECK(delivered.inversions == 0);
  CHECK(harvest.losses().requests_refused == 0);
}

TEST_CASE(
    "a buffer that comes back after the harvest is counted in the next session, and its memory is not freed early") {
  start();
  uint8_t* first = borrow();
  uint8_t* second = borrow();
  on_buffer_completed(borrow(), kBuffer, 96);
  {
    const Harvest harvest = finish();
    CHECK(harvest.losses().buffers_kept == 2);
    CHECK(harvest.buffers().size() == 1);
    std::memset(first, 1, kBuffer);  // libaiupti goes on writing
    on_buffer_completed(first, kBuffer, 96);
    on_buffer_completed(first, kBuffer, 96);
  }
  std::memset(second, 1, kBuffer);  // even after the trace was freed
  start();
  std::memset(second, 2, kBuffer);
  on_buffer_completed(second, kBuffer, kBuffer);
  on_buffer_completed(second, kBuffer, kBuffer);
  const Harvest next = finish();
  CHECK(next.losses().late_completions == 2);
  CHECK(next.losses().unknown_buffers == 2);
  CHECK(next.buffers().empty());

  start();
  const Harvest clean = finish();
  CHECK(clean.losses().late_completions == 0);
  CHECK(clean.losses().unknown_buffers == 0);
  CHECK(clean.losses().buffers_kept == 0);
}

TEST_CASE("callbacks with null pointers do nothing") {
  start();
  on_buffer_requested(nullptr, nullptr, nullptr);
  const Harvest harvest = finish();
  CHECK(harvest.losses().buffers_kept == 1);
}
