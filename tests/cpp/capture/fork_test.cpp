// A child starts off and empty; the parent drops nothing that isn't counted; nothing is held across the fork that would
// stop the child.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

Config small() {
  Config config;
  config.budget_bytes = 64 << 20;
  config.buffer_bytes = 64 << 10;
  config.count_records = count_test_records;
  return config;
}

// 0 if the child is as it should be. No Catch2 in the child: its report belongs to the parent.
int child(bool starts_a_session, uint8_t* lent_to_parent) {
  if (armed()) return 1;
  push_op(1);
  pop_op();
  if (!take_result().threads().empty()) return 2;
  uint8_t* buffer = nullptr;
  size_t size = 0;
  size_t max_records = 0;
  on_buffer_requested(&buffer, &size, &max_records);
  if (buffer == nullptr || buffer == lent_to_parent) return 3;
  buffer[0] = 1;  // thrown away
  on_buffer_completed(buffer, size, 1);
  if (lent_to_parent != nullptr) {
    lent_to_parent[0] = 1;  // libaiupti in the child may still write to what the parent lent it
    on_buffer_completed(lent_to_parent, 64 << 10, 96);
  }
  if (!starts_a_session) return 0;

  std::string error;
  if (!prepare(small(), &error)) return 4;
  open_window();
  push_op(5);
  pop_op();
  std::thread([] { push_op(6); }).join();
  Borrower borrower(1);
  for (int i = 0; i < 100; ++i) borrower.write();
  borrower.give_back();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  if (capture_result.threads().size() != 2 || capture_result.threads()[0].events.size() != 2) return 5;
  Delivered delivered;
  for (const Buffer& of_child : capture_result.buffers()) delivered.add(of_child);
  return delivered.total() == 100 && delivered.torn == 0 ? 0 : 6;
}

}  // namespace

TEST_CASE("a thousand forks under load: each child is off and empty, the parent drops nothing that isn't counted") {
  std::string error;
  REQUIRE(prepare(small(), &error));
  open_window();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> op_events{0}, produced{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Borrower borrower(t);
      uint64_t count = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        push_op(1);
        borrower.write();
        pop_op();
        count += 2;
        if (count % 512 == 0) {
          borrower.give_back();
          std::this_thread::yield();
        }
      }
      borrower.give_back();
      op_events += count;
      produced += borrower.produced();
    });
  }
  uint8_t* lent = nullptr;
  size_t size = 0;
  size_t max_records = 0;
  on_buffer_requested(&lent, &size, &max_records);
  REQUIRE(lent != nullptr);
  const char* wanted = std::getenv("KINETO_SPYRE_TEST_FORKS");  // a fork is slow under qemu
  const int forks = wanted != nullptr ? std::atoi(wanted) : kSanitizer || kQemu ? 100 : 1'000;
  int failed = 0;
  for (int i = 0; i < forks; ++i) {
    // The sanitizers' runtimes and qemu-user don't survive a new thread in the child of a process that had several.
    const bool starts_a_session = i % 20 == 0 && !kSanitizer && !kQemu;
    const pid_t pid = fork();
    if (pid == 0) _exit(child(starts_a_session, lent));
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++failed;
      UNSCOPED_INFO("child " << i << ": status " << status);
    }
  }
  CHECK(failed == 0);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(lent[0] == 0);
  on_buffer_completed(lent, size, 0);
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();

  Delivered delivered;
  for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
  const Drops& drops = capture_result.drops();
  CHECK(drops.uncounted_buffers == 0);
  CHECK(produced == delivered.total() + drops.records_dropped);
  CHECK(delivered.torn == 0);
  CHECK(delivered.inversions == 0);
  uint64_t kept = 0, of_threads = 0;
  for (const ThreadOpEvents& thread : capture_result.threads()) {
    kept += thread.events.size();
    of_threads += thread.dropped;
  }
  CHECK(kept + of_threads == op_events);
  CHECK(capture_result.drops().unknown_buffers == 0);
}

TEST_CASE("a result that was taken before a fork can be read in the child") {
  std::string error;
  REQUIRE(prepare(small(), &error));
  open_window();
  Borrower borrower(3);
  for (int i = 0; i < 5'000; ++i) borrower.write();
  borrower.give_back();
  close_window();
  const CaptureResult capture_result = kineto_spyre::capture::take_result();
  const pid_t pid = fork();
  if (pid == 0) {
    Delivered delivered;
    for (const Buffer& buffer : capture_result.buffers()) delivered.add(buffer);
    _exit(delivered.total() == 5'000 && delivered.torn == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

TEST_CASE("a process may end in the middle of a session") {
  const pid_t pid = fork();
  if (pid == 0) {
    std::string error;
    if (!prepare(small(), &error)) _exit(1);
    open_window();
    std::thread([] {
      for (;;) {
        push_op(1);
        pop_op();
      }
    }).detach();
    push_op(1);
    std::exit(0);  // with static destructors
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}
