// Who takes records: the floor, the emulated libaiupti over this project's pool, and what one would reach for instead, if
// their headers are installed (Debian: libboost-dev, libconcurrentqueue-dev, libreaderwriterqueue-dev).
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/pool.h"
#include "emulated_aiupti/record_writer.h"

#if __has_include(<boost/lockfree/queue.hpp>)
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#define HAS_BOOST 1
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAS_CONCURRENT_QUEUE 1
#endif
#if __has_include(<readerwriterqueue/readerwriterqueue.h>)
#include <readerwriterqueue/readerwriterqueue.h>
#define HAS_READER_WRITER_QUEUE 1
#endif

namespace hot_path {

using namespace kineto_spyre;

inline constexpr size_t kBurst = 20'000;
inline constexpr int kMaxProducers = 2;

struct Record {
  uint64_t stamp;
  uint64_t words[11];
};
static_assert(sizeof(Record) == 96);

inline void fill(Record& record, uint64_t i) {
  record.stamp = capture::fast_ticks();
  for (uint64_t word = 0; word < 11; ++word) record.words[word] = i + word;
}

// ---------------------------------------------------------------------------------------------------------------------
// Contenders. produce() is called by each producer's thread, the rest by one other thread.

struct Contender {
  virtual ~Contender() = default;
  virtual std::string name() const = 0;
  virtual void produce(int producer, size_t count) = 0;
  virtual uint64_t drain() = 0;  // takes what there is, reads each record's stamp; returns how many there were
  virtual void over() {}         // after a burst: gives back what drain() still holds
  uint64_t dropped[kMaxProducers] = {};
};

inline uint64_t sink = 0;

// Whoever records has to know where: that place is read once, and kept.
struct Floor : Contender {
  struct alignas(64) Place {
    Record *at, *end;
  };
  std::vector<Record> memory[kMaxProducers] = {std::vector<Record>(kBurst), std::vector<Record>(kBurst)};
  Place places[kMaxProducers] = {};
  std::string name() const override { return "floor: fill + clock"; }
  void produce(int producer, size_t count) override {
    Record* at = places[producer].at;
    Record* const end = places[producer].end;
    for (size_t i = 0; i < count; ++i) {
      if (at == end) [[unlikely]]
        at = memory[producer].data();
      fill(*at++, i);
      asm volatile("" ::: "memory");
    }
    places[producer] = {at, memory[producer].data() + kBurst};
  }
  uint64_t drain() override { return 0; }
};

// The emulated libaiupti's writer over this project's pool.
struct Ours : Contender {
  inline static capture::Pool* pool = nullptr;
  static bool lend(uint8_t** buffer, size_t* size, size_t* max_records) {
    const capture::Buffer lent = pool->lend();
    *buffer = lent.data;
    *size = lent.size;
    *max_records = 0;
    return lent.data != nullptr;
  }
  static void give_back(uint8_t* buffer, size_t, size_t valid) { pool->complete(buffer, valid); }

  capture::Pool mine;
  const bool asymmetric = emulator::ProcessBarrier::available();
  std::vector<uint32_t> taken;
  emulator::RecordWriter writers[kMaxProducers] = {{{lend, give_back}, asymmetric}, {{lend, give_back}, asymmetric}};

  Ours() {
    std::string error;
    const capture::Config config;
    if (!mine.map(64 << 20, config.buffer_bytes, &error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::exit(1);
    }
    mine.touch_ahead(64 << 20);
    pool = &mine;
  }
  std::string name() const override { return "emulated library: a record, into a lent buffer"; }
  void produce(int producer, size_t count) override {
    emulator::RecordWriter& writer = writers[producer];
    for (size_t i = 0; i < count; ++i) {
      if (!writer.write(sizeof(Record), [i](void* at) { fill(*static_cast<Record*>(at), i); })) ++dropped[producer];
      asm volatile("" ::: "memory");
    }
  }
  uint64_t drain() override {
    uint64_t count = 0;
    mine.take_returned([&](uint32_t index, const capture::Buffer& buffer) {
      const auto* records = reinterpret_cast<const Record*>(buffer.data);
      for (size_t i = 0; i < buffer.valid / sizeof(Record); ++i) sink += records[i].stamp;
      count += buffer.valid / sizeof(Record);
      taken.push_back(index);
    });
    return count;
  }
  // As in a session: a trace reads its records in place, so a buffer is not lent again while there is that trace.
  void over() override {
    for (const uint32_t index : taken) mine.recycle(index);
    taken.clear();
  }
};

struct MutexVector : Contender {
  std::mutex mutex;
  std::vector<Record> records;
  MutexVector() { records.reserve(kMaxProducers * kBurst); }
  std::string name() const override { return "mutex + vector"; }
  void produce(int, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      fill(record, i);
      const std::lock_guard<std::mutex> lock(mutex);
      records.push_back(record);
    }
  }
  uint64_t drain() override {
    std::vector<Record> taken;
    taken.reserve(kMaxProducers * kBurst);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      taken.swap(records);
    }
    for (const Record& record : taken) sink += record.stamp;
    return taken.size();
  }
};

#ifdef HAS_BOOST
struct BoostSpsc : Contender {
  std::unique_ptr<boost::lockfree::spsc_queue<Record>> queues[kMaxProducers];
  BoostSpsc() {
    for (auto& queue : queues) queue = std::make_unique<boost::lockfree::spsc_queue<Record>>(2 * kBurst);
  }
  std::string name() const override { return "boost::lockfree::spsc_queue, one a thread"; }
  void produce(int producer, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      fill(record, i);
      if (!queues[producer]->push(record)) ++dropped[producer];
    }
  }
  uint64_t drain() override {
    uint64_t count = 0;
    for (auto& queue : queues) count += queue->consume_all([](const Record& record) { sink += record.stamp; });
    return count;
  }
};

struct BoostQueue : Contender {
  boost::lockfree::queue<Record, boost::lockfree::fixed_sized<true>> queue{60'000};
  std::string name() const override { return "boost::lockfree::queue"; }
  void produce(int producer, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      fill(record, i);
      if (!queue.bounded_push(record)) ++dropped[producer];
    }
  }
  uint64_t drain() override {
    return queue.consume_all([](const Record& record) { sink += record.stamp; });
  }
};
#endif

#ifdef HAS_CONCURRENT_QUEUE
struct Moodycamel : Contender {
  moodycamel::ConcurrentQueue<Record> queue{4 * kBurst};
  moodycamel::ProducerToken tokens[kMaxProducers] = {moodycamel::ProducerToken(queue),
                                                     moodycamel::ProducerToken(queue)};
  std::vector<Record> taken = std::vector<Record>(1024);
  std::string name() const override { return "moodycamel::ConcurrentQueue, token"; }
  void produce(int producer, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      fill(record, i);
      if (!queue.enqueue(tokens[producer], record)) ++dropped[producer];
    }
  }
  uint64_t drain() override {
    uint64_t count = 0;
    while (const size_t got = queue.try_dequeue_bulk(taken.begin(), taken.size())) {
      for (size_t i = 0; i < got; ++i) sink += taken[i].stamp;
      count += got;
    }
    return count;
  }
};
#endif

#ifdef HAS_READER_WRITER_QUEUE
struct ReaderWriter : Contender {
  moodycamel::ReaderWriterQueue<Record> queues[kMaxProducers] = {moodycamel::ReaderWriterQueue<Record>(2 * kBurst),
                                                                 moodycamel::ReaderWriterQueue<Record>(2 * kBurst)};
  std::string name() const override { return "moodycamel::ReaderWriterQueue, one a thread"; }
  void produce(int producer, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      fill(record, i);
      if (!queues[producer].enqueue(record)) ++dropped[producer];
    }
  }
  uint64_t drain() override {
    uint64_t count = 0;
    Record record;
    for (auto& queue : queues) {
      while (queue.try_dequeue(record)) {
        sink += record.stamp;
        ++count;
      }
    }
    return count;
  }
};
#endif

}  // namespace hot_path
