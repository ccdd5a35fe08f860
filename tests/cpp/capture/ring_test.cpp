// The flight recorder's ring: what goes round is whole, what a session on top gets is everything, what is lost is
// counted.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "capture/op_ring.h"
#include "capture/ring.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

constexpr int64_t kMinute = 60'000'000'000;

void start(size_t budget_bytes, int64_t keep_ns = kMinute) {
  RingConfig config;
  config.budget_bytes = budget_bytes;
  config.keep_ns = keep_ns;
  config.count_records = count_test_records;
  std::string error;
  REQUIRE(start_ring(config, &error));
}

uint64_t produce(int threads, uint64_t each) {
  std::atomic<uint64_t> produced{0};
  std::vector<std::thread> producers;
  for (int t = 0; t < threads; ++t) {
    producers.emplace_back([&, t] {
      Borrower borrower(static_cast<uint64_t>(t));
      for (uint64_t i = 0; i < each; ++i) borrower.write();
      borrower.give_back();
      produced += borrower.produced();
    });
  }
  for (std::thread& producer : producers) producer.join();
  return produced;
}

Delivered delivered_by(const CaptureResult& result) {
  Delivered delivered;
  for (const Buffer& buffer : result.buffers()) delivered.add(buffer);
  return delivered;
}

}  // namespace

TEST_CASE("a snapshot holds everything that fits, and the ring goes on") {
  const int threads = GENERATE(1, 4);
  start(size_t{64} << 20);
  const uint64_t produced = produce(threads, 20'000);
  for (int i = 0; i < 2; ++i) {
    const Delivered delivered = delivered_by(snapshot_ring());
    CHECK(delivered.total() == produced);
    CHECK(delivered.torn == 0);
  }
  CHECK(ring_status().recycled_early == 0);
  stop_ring();
  CHECK_FALSE(ring_is_running());
}

TEST_CASE("the oldest buffers make room, the newest stay, memory is bounded, and since when is told") {
  constexpr size_t kBudget = size_t{4} << 20;
  start(kBudget);
  const int64_t begun = ring_status().whole_from_ns;
  Borrower borrower(0);
  for (uint64_t i = 0; i < 400'000; ++i) {  // 38 MB
    borrower.write();
    if (i % 4096 == 0) collect_ring();
  }
  borrower.give_back();
  const CaptureResult result = snapshot_ring();
  size_t bytes = 0;
  for (const Buffer& buffer : result.buffers()) bytes += buffer.valid;
  const auto* last = reinterpret_cast<const TestRecord*>(result.buffers().back().data + result.buffers().back().valid -
                                                         sizeof(TestRecord));
  CHECK(last->sequence == 399'999);
  CHECK(bytes <= kBudget);
  CHECK(bytes > kBudget / 2);
  const RingStatus status = ring_status();
  CHECK(status.recycled_early > 0);
  CHECK(status.whole_from_ns > begun);
  CHECK(status.requests_without_buffer == 0);
  stop_ring();
}

TEST_CASE("what is older than asked is recycled") {
  start(size_t{4} << 20, 0);
  produce(1, 1'000);
  collect_ring();
  while (ring_status().kept_bytes != 0) collect_ring();
  CHECK(delivered_by(snapshot_ring()).total() == 0);
  CHECK(ring_status().recycled_early == 0);
  stop_ring();
}

TEST_CASE("frames that run out are counted record by record") {
  start(size_t{1} << 20);
  uint64_t produced = 0;
  {
    // All frames are out at once, so the rest goes to memory that is thrown away.
    std::vector<Borrower> borrowers;
    for (uint64_t t = 0; t < 20; ++t) borrowers.emplace_back(t);
    for (Borrower& borrower : borrowers) borrower.write();  // each has a buffer of its own now
    for (Borrower& borrower : borrowers) {
      borrower.give_back();
      produced += borrower.produced();
    }
  }
  const uint64_t delivered = delivered_by(snapshot_ring()).total();
  const RingStatus status = ring_status();
  constexpr uint64_t kFrames = 16;
  CHECK(status.requests_without_buffer == produced - kFrames);
  CHECK(status.records_dropped == produced - kFrames);
  CHECK(delivered + status.recycled_early == kFrames);  // a record in each
  stop_ring();
}

TEST_CASE("a session on top gets all of its records, and the ring keeps them") {
  start(size_t{64} << 20);
  produce(2, 5'000);
  Config config;
  std::string error;
  REQUIRE(prepare(config, &error));
  produce(1, 1'000);  // warm-up
  collect_ring();
  open_window();
  const uint64_t produced = produce(4, 10'000);
  close_window();
  copy_to_session(true);
  const CaptureResult session = take_result();
  CHECK(delivered_by(session).total() == produced);
  CHECK(delivered_by(session).torn == 0);
  CHECK(session.drops().requests_without_buffer == 0);
  CHECK(delivered_by(snapshot_ring()).total() == produced + 11'000);
  stop_ring();
}

TEST_CASE("a session whose budget the copies use up counts what it misses") {
  start(size_t{64} << 20);
  Config config;
  config.budget_bytes = 1 << 20;
  config.count_records = count_test_records;
  std::string error;
  REQUIRE(prepare(config, &error));
  open_window();
  const uint64_t produced = produce(1, 100'000);
  close_window();
  copy_to_session(true);
  const CaptureResult session = take_result();
  CHECK(session.drops().records_dropped > 0);
  CHECK(delivered_by(session).total() + session.drops().records_dropped == produced);
  CHECK(delivered_by(snapshot_ring()).total() == produced);
  stop_ring();
}

TEST_CASE("a paused session gets nothing, the ring everything") {
  start(size_t{64} << 20);
  std::string error;
  REQUIRE(prepare(Config{}, &error));
  open_window();
  const uint64_t before = produce(1, 1'000);
  copy_to_session(false);
  const uint64_t paused = produce(1, 2'000);
  copy_to_session(true);
  close_window();
  CHECK(delivered_by(take_result()).total() == before);
  CHECK(delivered_by(snapshot_ring()).total() == before + paused);
  stop_ring();
}

TEST_CASE("a ring that begins and ends under a session costs it nothing") {
  std::string error;
  REQUIRE(prepare(Config{}, &error));
  open_window();
  uint64_t produced = produce(2, 5'000);
  start(size_t{16} << 20);
  produced += produce(2, 5'000);
  stop_lending();
  stop_ring();
  produced += produce(2, 5'000);
  close_window();
  CHECK(delivered_by(take_result()).total() == produced);
}

TEST_CASE("a buffer that comes back when the ring is over is counted") {
  start(size_t{4} << 20);
  Borrower borrower(0);
  borrower.write();
  stop_ring();
  std::string error;
  REQUIRE(prepare(Config{}, &error));
  open_window();
  borrower.give_back();
  close_window();
  CHECK(take_result().drops().unknown_buffers == 1);
}

TEST_CASE("a second ring is refused with a sentence") {
  start(size_t{4} << 20);
  std::string error;
  CHECK_FALSE(start_ring(RingConfig{}, &error));
  CHECK(error == "The flight recorder runs already.");
  stop_ring();
}

TEST_CASE("a forked child has no ring, and its parent's goes on") {
  start(size_t{16} << 20);
  std::string error;
  REQUIRE(op_ring::start(1 << 20, kMinute, &error));
  const uint64_t produced = produce(1, 1'000);
  const pid_t child = fork();
  if (child == 0) {
    op_ring::push_op(1);
    op_ring::pop_op();
    const bool none = !ring_is_running() && !op_ring::is_on() && op_ring::snapshot().slices.empty();
    std::string error;
    RingConfig config;
    config.budget_bytes = 1 << 20;
    // The sanitizers' runtimes and qemu-user don't survive a new thread in the child of a process that had several.
    const bool again = kSanitizer || kQemu || start_ring(config, &error);
    stop_ring();
    _exit(none && again ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(delivered_by(snapshot_ring()).total() == produced);
  op_ring::stop();
  stop_ring();
}

// ---------------------------------------------------------------------------------------------------------------------

namespace {

struct OpRing {
  explicit OpRing(int64_t keep_ns = kMinute) {
    std::string error;
    start(size_t{4} << 20, keep_ns);  // for its keeper
    REQUIRE(op_ring::start(size_t{1} << 20, keep_ns, &error));
  }
  ~OpRing() {
    op_ring::stop();
    stop_ring();
  }
};

}  // namespace

TEST_CASE("ops and ranges of each thread become slices that nest") {
  const OpRing ring;
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) {
        op_ring::push_range("request " + std::to_string(i));
        op_ring::push_op(t);
        op_ring::push_op(t + 10);
        op_ring::pop_op();
        op_ring::pop_op();
        op_ring::pop_range();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const op_ring::Snapshot snapshot = op_ring::snapshot();
  CHECK(snapshot.slices.size() == 1'200);
  CHECK(snapshot.names.size() == 400);
  CHECK(snapshot.dropped == 0);
  size_t wrong = 0;
  for (size_t i = 0; i + 2 < snapshot.slices.size(); i += 3) {
    const auto* slice = &snapshot.slices[i];
    const bool nests = slice[0].begin <= slice[1].begin && slice[1].begin <= slice[2].begin &&
                       slice[2].end <= slice[1].end && slice[1].end <= slice[0].end;
    const bool named = slice[0].range && snapshot.names[slice[0].id].starts_with("request ");
    wrong += !nests || !named || slice[2].id != slice[1].id + 10 || slice[0].open;
  }
  CHECK(wrong == 0);
}

TEST_CASE("what is open is told as such; an end without a begin is none") {
  const OpRing ring;
  std::thread([] {
    op_ring::pop_op();  // its begin was before
    op_ring::push_op(7);
    const op_ring::Snapshot snapshot = op_ring::snapshot();
    REQUIRE(snapshot.slices.size() == 1);
    CHECK(snapshot.slices[0].open);
    CHECK(snapshot.slices[0].end > snapshot.slices[0].begin);
    op_ring::pop_op();
    CHECK_FALSE(op_ring::snapshot().slices[0].open);
  }).join();
}

TEST_CASE("op events go round: the newest stay, and since when they are whole is told") {
  const OpRing ring;
  std::thread([] {
    for (uint64_t i = 0; i < 200'000; ++i) {
      op_ring::push_op(i);
      op_ring::pop_op();
      if (i % 1024 == 0) collect_ring(), std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const op_ring::Snapshot snapshot = op_ring::snapshot();
    CHECK(snapshot.slices.back().id == 199'999);
    CHECK(snapshot.slices.size() > 20'000);
    CHECK(snapshot.slices.size() < 66'000);
    CHECK(snapshot.whole_from_ns > snapshot.slices.front().begin - kMinute);
  }).join();
}

TEST_CASE("a name that is longer than the longest is cut, one without characters is kept") {
  const OpRing ring;
  std::thread([] {
    op_ring::push_range(std::string(5'000, 'x'));
    op_ring::push_range("");
    op_ring::pop_range();
    op_ring::pop_range();
    const op_ring::Snapshot snapshot = op_ring::snapshot();
    REQUIRE(snapshot.names.size() == 2);
    CHECK(snapshot.names[0] == std::string(op_ring::kLongestName, 'x'));
    CHECK(snapshot.names[1].empty());
  }).join();
}

TEST_CASE("what was kept before a stop is no part of what is kept after the next start") {
  std::thread([] {
    {
      const OpRing ring;
      op_ring::push_op(1);
    }
    const OpRing ring;
    op_ring::push_op(2);
    op_ring::pop_op();
    const op_ring::Snapshot snapshot = op_ring::snapshot();
    REQUIRE(snapshot.slices.size() == 1);
    CHECK(snapshot.slices[0].id == 2);
  }).join();
}

TEST_CASE("a snapshot beside threads that push never tears") {
  const OpRing ring;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        op_ring::push_range("range");
        op_ring::push_op(5);
        op_ring::pop_op();
        op_ring::pop_range();
      }
    });
  }
  size_t wrong = 0;
  for (int i = 0; i < 30; ++i) {
    for (const op_ring::Slice& slice : op_ring::snapshot().slices) wrong += slice.range ? 0 : slice.id != 5;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
