// The writer of records alone: owners that write as fast as they can, a flusher that takes their buffers away.
#include "emulated_aiupti/record_writer.h"

#include "testing.h"

using kineto_spyre::emulator::Buffer;
using kineto_spyre::emulator::BufferSource;
using kineto_spyre::emulator::ProcessBarrier;
using kineto_spyre::emulator::RecordWriter;
using namespace testing;

namespace {

struct Record {
  uint32_t writer;
  uint32_t length;  // bytes, this included
  uint64_t sequence;
  uint64_t check;
  uint64_t filling[13];
};

uint64_t checksum(uint32_t writer, uint64_t sequence) {
  return (sequence * 0x9e3779b97f4a7c15u) ^ (uint64_t{writer} << 32) ^ 0x5bd1e995;
}

// Buffers for the test: lends what it made, checks what comes back. Within a buffer a writer's records are in order;
// buffers may overtake each other, as an owner may fill its next one while a flusher gives back the one before.
class Store {
 public:
  explicit Store(size_t buffer_bytes, size_t max_records = 0, size_t refuse_every = 0)
      : bytes_(buffer_bytes), max_records_(max_records), refuse_every_(refuse_every) {
    current = this;
  }
  static bool lend(Buffer* buffer) {
    Store* s = current;
    std::lock_guard lock(s->mutex_);
    if (s->refuse_every_ != 0 && ++s->asked_ % s->refuse_every_ == 0) return false;
    if (s->free_.empty()) {
      s->owned_.emplace_back(new uint64_t[s->bytes_ / 8]);
      s->free_.push_back(reinterpret_cast<uint8_t*>(s->owned_.back().get()));
    }
    *buffer = {s->free_.back(), s->bytes_, s->max_records_, nullptr};
    s->free_.pop_back();
    return true;
  }
  static void give_back(const Buffer& buffer, size_t valid) {
    Store* s = current;
    std::lock_guard lock(s->mutex_);
    s->check(buffer.data, buffer.size, valid);
    s->free_.push_back(buffer.data);
  }
  static BufferSource source() { return {lend, give_back}; }

  uint64_t records = 0, torn = 0, inversions = 0, buffers = 0, sum = 0;

 private:
  void check(const uint8_t* buffer, size_t size, size_t valid) {
    ++buffers;
    if (size != bytes_ || valid > size) ++torn;
    size_t at = 0;
    uint64_t last = 0;
    while (at < valid) {
      Record record{};
      std::memcpy(static_cast<void*>(&record), buffer + at, 24);
      if (record.length < 24 || record.length > sizeof(Record) || at + record.length > valid ||
          record.check != checksum(record.writer, record.sequence)) {
        ++torn;
        return;
      }
      std::memcpy(static_cast<void*>(&record), buffer + at, record.length);
      for (size_t i = 0; i < (record.length - 24) / 8; ++i) {
        if (record.filling[i] != record.sequence) ++torn;
      }
      if (record.sequence <= last) ++inversions;
      last = record.sequence;
      sum += record.sequence;
      ++records;
      at += record.length;
    }
  }

  inline static Store* current = nullptr;
  const size_t bytes_, max_records_, refuse_every_;
  std::mutex mutex_;
  size_t asked_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> owned_;
  std::vector<uint8_t*> free_;
};

struct Lost {
  uint64_t records = 0, sum = 0;  // those that found no room, and their sequence numbers added up
};

Lost produce(RecordWriter& writer, uint32_t id, uint64_t count) {
  Lost lost;
  for (uint64_t i = 1; i <= count; ++i) {
    const uint32_t length = 24 + 8 * (i % 14);
    const bool written = writer.write(length, [&](void* place) {
      Record record{id, length, i, checksum(id, i), {}};
      std::fill_n(record.filling, (length - 24) / 8, i);
      std::memcpy(place, &record, length);
    });
    if (!written) {
      ++lost.records;
      lost.sum += i;
    }
  }
  return lost;
}

uint64_t records_to_write() {
  const char* wanted = std::getenv("KINETO_SPYRE_TEST_RECORDS");
  return wanted == nullptr ? 400'000 : std::strtoull(wanted, nullptr, 10);
}

void conserve(bool asymmetric, size_t buffer_bytes, size_t max_records, size_t refuse_every) {
  constexpr uint32_t kWriters = 4;
  Store store(buffer_bytes, max_records, refuse_every);
  std::vector<std::unique_ptr<RecordWriter>> writers;
  for (uint32_t w = 0; w < kWriters; ++w)
    writers.push_back(std::make_unique<RecordWriter>(Store::source(), asymmetric));
  const auto flush = [&] {
    for (auto& writer : writers) writer->hide();
    if (asymmetric) ProcessBarrier::barrier();
    for (auto& writer : writers) writer->take();
  };
  std::atomic<uint32_t> running{kWriters};
  std::atomic<uint64_t> lost{0}, lost_sum{0};
  const uint64_t each = records_to_write() / kWriters;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      const Lost mine = produce(*writers[w], w, each);
      lost += mine.records;
      lost_sum += mine.sum;
      --running;
    });
  }
  uint64_t flushes = 0;
  while (running != 0) {
    flush();
    ++flushes;
  }
  for (auto& thread : threads) thread.join();
  flush();
  INFO("flushes " << flushes << ", buffers " << store.buffers << ", lost " << lost.load());
  CHECK(store.records + lost == kWriters * each);
  CHECK(store.sum + lost_sum == kWriters * each * (each + 1) / 2);  // the right ones: none twice
  CHECK(store.torn == 0);
  CHECK(store.inversions == 0);
  if (refuse_every != 0) CHECK(lost > 0);
}

}  // namespace

TEST_CASE("records written while a flusher takes the buffers away are neither lost, torn nor out of order") {
  if (ProcessBarrier::available()) {
    SECTION("membarrier") { conserve(true, 64 << 10, 0, 0); }
    SECTION("membarrier, tiny buffers") { conserve(true, 256, 0, 0); }
    SECTION("membarrier, counted records, no buffer now and then") { conserve(true, 4096, 7, 5); }
  }
  SECTION("sequentially consistent") { conserve(false, 64 << 10, 0, 0); }
  SECTION("sequentially consistent, tiny buffers, no buffer now and then") { conserve(false, 256, 0, 5); }
}

TEST_CASE("closing gives the half-full buffer back, once") {
  Store store(4096);
  RecordWriter writer(Store::source(), ProcessBarrier::available());
  REQUIRE(produce(writer, 1, 10).records == 0);
  REQUIRE(store.buffers == 0);
  writer.close();
  writer.close();
  REQUIRE(store.buffers == 1);
  REQUIRE(store.records == 10);
  writer.hide();
  writer.take();
  REQUIRE(store.buffers == 1);
  RecordWriter large(Store::source(), ProcessBarrier::available());
  REQUIRE_FALSE(large.write(8192, [](void*) { FAIL("no room for it"); }));
}
