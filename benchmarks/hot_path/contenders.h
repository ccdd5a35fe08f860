// Who takes records: the floor, the emulated libaiupti's staging, and what one would reach for instead, if
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
#include "emulated_aiupti/staging.h"

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

// The emulated libaiupti: a writer a thread, into chunks that its completion thread takes.
struct Emulated : Contender {
  inline static emulator::Staging* staging = nullptr;
  static bool lend(emulator::Buffer* buffer) {
    emulator::Chunk* const chunk = staging->take();
    if (chunk != nullptr) *buffer = {chunk->data, emulator::Chunk::kBytes, 0, chunk};
    return chunk != nullptr;
  }
  static void give_back(const emulator::Buffer& buffer, size_t valid) { staging->push({buffer, valid}); }

  std::unique_ptr<emulator::Staging> mine = std::make_unique<emulator::Staging>();
  const bool asymmetric = emulator::ProcessBarrier::available();
  emulator::RecordWriter writers[kMaxProducers] = {{{lend, give_back}, asymmetric}, {{lend, give_back}, asymmetric}};

  Emulated() {
    mine->touch_ahead(kMaxProducers * (kBurst * sizeof(Record) / emulator::Chunk::kBytes + 2));  // as much as the floor
    staging = mine.get();
  }
  std::string name() const override { return "emulated library: a record, staged"; }
  void produce(int producer, size_t count) override {
    emulator::RecordWriter& writer = writers[producer];
    for (size_t i = 0; i < count; ++i) {
      if (!writer.write(sizeof(Record), [i](void* at) { fill(*static_cast<Record*>(at), i); })) ++dropped[producer];
      asm volatile("" ::: "memory");
    }
  }
  uint64_t drain() override {
    uint64_t count = 0;
    emulator::Staged staged;
    while (mine->pop(&staged)) {
      const auto* records = reinterpret_cast<const Record*>(staged.buffer.data);
      for (size_t i = 0; i < staged.valid / sizeof(Record); ++i) sink += records[i].stamp;
      count += staged.valid / sizeof(Record);
      mine->put_back(static_cast<emulator::Chunk*>(staged.buffer.chunk));
    }
    return count;
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
