// The capture and the heap: nothing is allocated on the way of a record or an op event, and no allocation that fails in
// a session does harm. This program replaces malloc() and mmap(), so it is one of its own.
#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include "../borrower.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

// Of all threads, while counting. fail_at: the allocation that fails, counted from 1; 0: none. fail_all: and all after.
std::atomic<bool> counting{false};
std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> fail_at{0};
std::atomic<bool> fail_all{false};

bool fails() {
  if (!counting.load(std::memory_order_relaxed)) return false;
  const uint64_t number = allocations.fetch_add(1) + 1;
  const uint64_t limit = fail_at.load(std::memory_order_relaxed);
  if (limit == 0 || number < limit || (number > limit && !fail_all)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return fails() ? nullptr : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *result = __libc_memalign(alignment, size);
  return *result != nullptr ? 0 : ENOMEM;
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  static const auto real = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
  return fails() ? MAP_FAILED : real(address, size, protection, flags, file, offset);
}
}

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

Config small() {
  Config config;
  config.budget_bytes = 4 << 20;
  config.buffer_bytes = 64 << 10;
  config.count_records = count_test_records;
  return config;
}

struct Outcome {
  bool prepared = false;
  bool has_sentence = false;
  uint64_t produced = 0, dropped = 0, delivered = 0;
  uint64_t op_events_made = 0, op_events_kept = 0, op_events_dropped = 0;
};

// One session with 2,500 op events and 700 records. Counts allocations from before prepare() until the trace is freed.
Outcome session(uint64_t failing, bool all_after) {
  Outcome outcome;
  Borrower borrower(1);
  Delivered delivered;
  std::string error;
  uint64_t kept = 0;
  Drops drops;
  allocations = 0;
  fail_at = failing;
  fail_all = all_after;
  counting = true;
  outcome.prepared = prepare(small(), &error);
  if (outcome.prepared) {
    open_window();
    for (int i = 0; i < 2'500; ++i) push_op(1);
    for (int i = 0; i < 700; ++i) borrower.write();
    borrower.give_back();
    close_window();
    {
      const CaptureResult capture_result = kineto_spyre::capture::take_result();
      counting = false;
      for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
      for (const ThreadOpEvents& thread : capture_result.threads()) kept += thread.events.size();
      drops = capture_result.drops();
      counting = true;
    }
  }
  counting = false;
  outcome.has_sentence = !error.empty();
  outcome.produced = borrower.produced();
  outcome.dropped = drops.records_dropped;
  outcome.delivered = delivered.total();
  outcome.op_events_made = outcome.prepared ? 2'500 : 0;
  outcome.op_events_kept = kept;
  outcome.op_events_dropped = drops.op_events_dropped;
  return outcome;
}

}  // namespace

TEST_CASE("a million records and a million op events allocate nothing after a thread's first") {
  Config config;
  config.budget_bytes = 128 << 20;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  std::atomic<uint64_t> allocated{0};
  std::thread thread([&allocated] {
    Borrower borrower(1);
    push_op(1);
    pop_op();
    borrower.write();
    allocations = 0;
    fail_at = 0;
    counting = true;
    for (int i = 0; i < 500'000; ++i) {
      push_op(7);
      borrower.write();
      borrower.write();
      pop_op();
    }
    counting = false;
    allocated = allocations.load();
    borrower.give_back();
  });
  thread.join();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  CHECK(allocated == 0);
  uint64_t events = 0;
  for (const ThreadOpEvents& of_thread : capture_result.threads()) events += of_thread.events.size();
  CHECK(events == 1'000'002);
  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  CHECK(delivered.total() == 1'000'001);
}

TEST_CASE(
    "each allocation of a session may fail: either there is no session and a sentence, or all that is missing is "
    "counted") {
  const bool all_after = GENERATE(false, true);
  REQUIRE(session(0, false).prepared);
  CHECK(allocations > 10);  // so that something was tested
  uint64_t invalid = 0;
  for (uint64_t failing = 1; failing <= 200; ++failing) {
    const Outcome outcome = session(failing, all_after);
    INFO("allocation " << failing);
    invalid += !outcome.prepared;
    CHECK(outcome.prepared != outcome.has_sentence);
    CHECK(outcome.produced == outcome.delivered + outcome.dropped);
    CHECK(outcome.op_events_made == outcome.op_events_kept + outcome.op_events_dropped);
    CHECK_FALSE(armed());
  }
  CHECK(invalid > 5);
  const Outcome after = session(0, false);
  CHECK(after.prepared);
  CHECK(after.delivered == 700);
  CHECK(after.op_events_kept == 2'500);
}
