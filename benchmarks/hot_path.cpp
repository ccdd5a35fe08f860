// What it costs the profiled program that it is being profiled: a record, a note of an op, and a profiler that is off.
//
//   hot_path [rounds]                 prints the tables; more rounds, steadier medians (default 25)
//   hot_path notes <pairs>            makes that many notes of ops and nothing else, for instruction counters
//
// How it measures. Machines are noisy, so no figure stands alone: in each round every contender has its turn, in an
// order that changes from round to round, and what is compared is the ratio to the floor of the same round. Printed are
// medians over rounds. The floor is what can't be saved: the record filled and the clock read, into memory of the same
// size, published to nobody. A burst is 20,000 records of 96 bytes with one clock reading each, unless said otherwise.
//
// The others are what one would reach for instead, if their headers are installed (Debian: libboost-dev,
// libconcurrentqueue-dev, libreaderwriterqueue-dev).
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/pool.h"
#include "emulator/record_writer.h"

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

namespace {

using namespace kineto_spyre;

constexpr size_t kBurst = 20'000;
constexpr int kMaxProducers = 2;

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

uint64_t sink = 0;

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
  std::string name() const override { return "this project: writer into a lent buffer"; }
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

// A note is 16 bytes and a clock reading; here a burst is so many notes.
struct NoteFloor : Contender {
  struct OpEvent {
    uint64_t stamp, word;
  };
  struct alignas(64) Place {
    OpEvent *at, *end;
  };
  std::vector<OpEvent> memory[kMaxProducers] = {std::vector<OpEvent>(kBurst), std::vector<OpEvent>(kBurst)};
  Place places[kMaxProducers] = {};
  std::string name() const override { return "floor: 16 bytes + clock"; }
  __attribute__((noinline)) static void store(OpEvent* at, uint64_t id) {
    at->stamp = capture::fast_ticks();
    at->word = id;
  }
  void produce(int producer, size_t count) override {
    OpEvent* at = places[producer].at;
    OpEvent* const end = places[producer].end;
    for (size_t i = 0; i < count; ++i) {
      if (at == end) [[unlikely]]
        at = memory[producer].data();
      store(at++, i);
    }
    places[producer] = {at, memory[producer].data() + kBurst};
  }
  uint64_t drain() override { return 0; }
};

// Notes have no live consumer: they are read when the window is closed. Each burst is a window of its own.
struct OurNotes : Contender {
  std::string name() const override { return "this project: push_op, pop_op"; }
  void open() {
    capture::Config config;
    config.budget_bytes = 64 << 20;
    std::string error;
    if (!capture::prepare(config, &error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::exit(1);
    }
    capture::open_window();
  }
  void produce(int, size_t count) override {
    for (size_t i = 0; i < count; i += 2) {
      capture::push_op(i);
      capture::pop_op();
    }
  }
  uint64_t drain() override {
    capture::close_window();
    const capture::CaptureResult capture_result = capture::take_result();
    uint64_t count = 0;
    for (const capture::ThreadOpEvents& thread : capture_result.threads()) count += thread.events.size();
    return count;
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// The harness.

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Producers that are always there, so that a burst doesn't measure the making of threads.
class Producers {
 public:
  Producers() {
    for (int p = 0; p < kMaxProducers; ++p) {
      threads_.emplace_back([this, p] {
        pin(p);
        for (uint64_t turn = 1;; ++turn) {
          turn_.wait(turn - 1, std::memory_order_acquire);
          if (!job_) return;
          if (p < active_) {
            ready_.fetch_add(1);
            while (ready_.load() < active_) {
            }
            const double begin = now_ns();
            job_(p);
            ns_[p] = now_ns() - begin;
          }
          done_.fetch_add(1, std::memory_order_release);
          done_.notify_one();
        }
      });
    }
  }
  ~Producers() {
    job_ = nullptr;
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  // The mean time of `active` producers that run `job` at the same time.
  double run(int active, std::function<void(int)> job) {
    job_ = std::move(job);
    active_ = active;
    ready_ = 0;
    done_ = 0;
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    for (int done; (done = done_.load(std::memory_order_acquire)) < kMaxProducers;) done_.wait(done);
    double sum = 0;
    for (int p = 0; p < active; ++p) sum += ns_[p];
    return sum / active;
  }

 private:
  std::function<void(int)> job_;
  int active_ = 0;
  double ns_[kMaxProducers] = {};
  std::atomic<uint64_t> turn_{0};
  std::atomic<int> ready_{0}, done_{0};
  std::vector<std::thread> threads_;
};

enum Consumer { kIdle, kPolling, kLazy };

double burst(Producers& producers, Contender& contender, int active, Consumer consumer, uint64_t* delivered) {
  std::atomic<bool> stop{false};
  std::atomic<bool> running{false};
  uint64_t consumed = 0;
  std::thread reader;
  if (consumer != kIdle) {
    reader = std::thread([&] {
      pin(1);
      running = true;
      while (!stop.load(std::memory_order_relaxed)) {
        consumed += contender.drain();
        if (consumer == kLazy) std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    while (!running) sched_yield();
  }
  const double ns = producers.run(active, [&](int p) { contender.produce(p, kBurst); });
  stop = true;
  if (reader.joinable()) reader.join();
  *delivered = consumed + contender.drain();
  contender.over();
  return ns / kBurst;
}

struct Column {
  const char* title;
  int producers;
  Consumer consumer;
};
constexpr Column kColumns[] = {{"1 producer", 1, kIdle},
                               {"2 producers", 2, kIdle},
                               {"1, consumer polling", 1, kPolling},
                               {"1, consumer each 200 us", 1, kLazy}};

std::string cell(double ns, double ratio) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f (%.2f)", ns, ratio);
  return text;
}

void record_table(Producers& producers, int rounds) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<Floor>());
  contenders.push_back(std::make_unique<Ours>());
#ifdef HAS_BOOST
  contenders.push_back(std::make_unique<BoostSpsc>());
  contenders.push_back(std::make_unique<BoostQueue>());
#endif
#ifdef HAS_CONCURRENT_QUEUE
  contenders.push_back(std::make_unique<Moodycamel>());
#endif
#ifdef HAS_READER_WRITER_QUEUE
  contenders.push_back(std::make_unique<ReaderWriter>());
#endif
  contenders.push_back(std::make_unique<MutexVector>());

  constexpr size_t kCases = std::size(kColumns);
  std::vector<std::vector<std::vector<double>>> ns(contenders.size(), std::vector<std::vector<double>>(kCases));
  for (int round = -2; round < rounds; ++round) {  // two rounds to warm up
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t which = (turn + static_cast<size_t>(round + 2)) % contenders.size();
      for (size_t c = 0; c < kCases; ++c) {
        if (which == 0 && kColumns[c].consumer != kIdle) continue;
        uint64_t delivered = 0;
        const double each =
            burst(producers, *contenders[which], kColumns[c].producers, kColumns[c].consumer, &delivered);
        if (round >= 0) ns[which][c].push_back(each);
      }
    }
  }

  std::printf(
      "\nA record: ns, and in brackets the median ratio to the floor of the same round; with a live consumer, to\n"
      "the contender's own burst of the same round. %d rounds of %zu records.\n\n",
      rounds, kBurst);
  std::printf("%-44s", "");
  for (const Column& column : kColumns) std::printf("%26s", column.title);
  std::printf("%8s\n", "dropped");
  for (size_t which = 0; which < contenders.size(); ++which) {
    std::printf("%-44s", contenders[which]->name().c_str());
    for (size_t c = 0; c < kCases; ++c) {
      std::vector<double> ratios;
      for (size_t r = 0; r < ns[which][c].size(); ++r) {
        const double against = kColumns[c].consumer == kIdle ? ns[0][c][r] : ns[which][0][r];
        ratios.push_back(ns[which][c][r] / against);
      }
      std::printf("%26s", ratios.empty() ? "" : cell(median(ns[which][c]), median(ratios)).c_str());
    }
    uint64_t dropped = 0;
    for (const uint64_t of_producer : contenders[which]->dropped) dropped += of_producer;
    std::printf("%8llu\n", static_cast<unsigned long long>(dropped));
  }
#ifndef HAS_BOOST
  std::printf("(boost::lockfree is left out: its headers are not installed)\n");
#endif
#ifndef HAS_CONCURRENT_QUEUE
  std::printf("(moodycamel::ConcurrentQueue is left out: its header is not installed)\n");
#endif
#ifndef HAS_READER_WRITER_QUEUE
  std::printf("(moodycamel::ReaderWriterQueue is left out: its header is not installed)\n");
#endif
}

void note_table(Producers& producers, int rounds) {
  NoteFloor floor;
  OurNotes ours;
  std::vector<double> ns[2][2], ratios[2];
  uint64_t made = 0, kept = 0;
  for (int round = -2; round < rounds; ++round) {
    for (const int active : {1, 2}) {
      uint64_t delivered = 0;
      double each[2];
      for (int turn = 0; turn < 2; ++turn) {
        const bool is_ours = (turn + round + 2) % 2 == 1;
        if (is_ours) {
          ours.open();
          producers.run(active, [](int) {  // a thread's first note finds its place; it is not what is measured
            capture::push_op(1);
            capture::pop_op();
          });
        }
        each[is_ours] = burst(producers, is_ours ? static_cast<Contender&>(ours) : floor, active, kIdle, &delivered);
        if (is_ours && round >= 0) {
          made += static_cast<uint64_t>(active) * (kBurst + 2);
          kept += delivered;
        }
      }
      if (round < 0) continue;
      for (const int which : {0, 1}) ns[which][active - 1].push_back(each[which]);
      ratios[active - 1].push_back(each[1] / each[0]);
    }
  }
  std::printf(
      "\nA note of an op's begin or end: ns, and the median ratio to the floor of the same round. Notes are read\n"
      "when the window is closed; there is no consumer beside it. %llu made, %llu kept.\n\n",
      static_cast<unsigned long long>(made), static_cast<unsigned long long>(kept));
  std::printf("%-44s%26s%26s\n", "", "1 producer", "2 producers");
  std::printf("%-44s%26.1f%26.1f\n", floor.name().c_str(), median(ns[0][0]), median(ns[0][1]));
  std::printf("%-44s%26s%26s\n", ours.name().c_str(), cell(median(ns[1][0]), median(ratios[0])).c_str(),
              cell(median(ns[1][1]), median(ratios[1])).c_str());
}

// Of the same shape and alignment as what it is compared with, so that what differs is what is done.
std::atomic<uint32_t> some_gate{1};
__attribute__((noinline)) void out_of_line(uint64_t id) { sink += id; }
__attribute__((noinline, aligned(64))) void bare(uint64_t id) {
  if (some_gate.load(std::memory_order_relaxed) != 1) [[unlikely]]
    out_of_line(id);
}

void off_table(Producers& producers, int rounds) {
  constexpr size_t kCalls = 2'000'000;
  std::vector<double> bare_ns, ours_ns, ratios;
  for (int round = -2; round < rounds; ++round) {
    double each[2];
    for (int turn = 0; turn < 2; ++turn) {
      const bool ours = (turn + round + 2) % 2 == 1;
      // One loop for both: where a loop lies in the program can cost more than what is measured.
      void (*const call)(uint64_t) = ours ? capture::push_op : bare;
      each[ours] = producers.run(1, [call](int) {
        for (size_t i = 0; i < kCalls; ++i) call(i);
      }) / kCalls;
    }
    if (round < 0) continue;
    bare_ns.push_back(each[0]);
    ours_ns.push_back(each[1]);
    ratios.push_back(each[1] / each[0]);
  }
  std::printf(
      "\nOff: a function that loads and branches, and push_op() with no profiler running; ns a call.\n\n");
  std::printf("%-44s%26.2f\n%-44s%19.2f (%.2f)\n", "a bare load and branch", median(bare_ns),
              "this project: push_op, off", median(ours_ns), median(ratios));
}

// One record after the caches were filled with something else: percentiles of single costs, the clock's own included.
void cold_table(Producers& producers, int samples) {
  Floor floor;
  Ours ours;
  MutexVector vector;
  Contender* contenders[] = {&floor, &ours, &vector};
  std::vector<double> ns[3];
  std::vector<double> note_ns[2];
  NoteFloor note_floor;
  OurNotes notes;
  notes.open();
  const capture::ClockPoint begin = capture::clock_point();
  producers.run(1, [&](int) {
    std::vector<uint8_t> other(4 << 20);
    const auto thrash = [&] {
      for (size_t i = 0; i < other.size(); i += 64) other[i] = static_cast<uint8_t>(other[i] + 1);
    };
    capture::push_op(1);
    for (Contender* contender : contenders) contender->produce(0, 1);  // the first one finds its place
    note_floor.produce(0, 1);
    for (int sample = 0; sample < samples; ++sample) {
      for (int turn = 0; turn < 3; ++turn) {
        const int which = (turn + sample) % 3;
        thrash();
        const uint64_t before = capture::fast_ticks();
        contenders[which]->produce(0, 1);
        ns[which].push_back(static_cast<double>(capture::fast_ticks() - before));
      }
      for (int turn = 0; turn < 2; ++turn) {
        const int which = (turn + sample) % 2;
        thrash();
        const uint64_t before = capture::fast_ticks();
        if (which == 0) {
          note_floor.produce(0, 1);
        } else {
          capture::push_op(1);
        }
        note_ns[which].push_back(static_cast<double>(capture::fast_ticks() - before));
      }
    }
  });
  const capture::ClockPoint end = capture::clock_point();
  notes.drain();
  const double ns_per_tick = static_cast<double>(end.ns - begin.ns) / static_cast<double>(end.ticks - begin.ticks);

  std::printf(
      "\nOne record, or note, with cold caches (4 MiB of other memory written in between): ns, and in brackets the\n"
      "ratio to the cold floor. %d samples each.\n\n",
      samples);
  std::printf("%-44s%20s%20s%20s\n", "", "p50", "p99", "p99.9");
  const auto percentile = [](std::vector<double>& of, double share) {
    const auto at = of.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(of.size() - 1));
    std::nth_element(of.begin(), at, of.end());
    return *at;
  };
  const auto row = [&](const std::string& name, std::vector<double>& of, std::vector<double>& against) {
    std::printf("%-44s", name.c_str());
    for (const double share : {0.5, 0.99, 0.999}) {
      const double mine = percentile(of, share);
      std::printf("%20s", cell(mine * ns_per_tick, mine / percentile(against, share)).c_str());
    }
    std::printf("\n");
  };
  for (int which = 0; which < 3; ++which) row(contenders[which]->name(), ns[which], ns[0]);
  row("floor: 16 bytes + clock", note_ns[0], note_ns[0]);
  row("this project: push_op", note_ns[1], note_ns[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "notes") == 0) {
    OurNotes notes;
    notes.open();
    const auto pairs = static_cast<size_t>(std::strtoull(argv[2], nullptr, 10));
    notes.produce(0, 2 * pairs);
    std::printf("%llu notes\n", static_cast<unsigned long long>(notes.drain()));
    return 0;
  }
  const int rounds = argc == 2 ? std::atoi(argv[1]) : 25;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: hot_path [rounds] | hot_path notes <pairs>\n");
    return 2;
  }
  if (!capture::has_fast_ticks()) std::printf("This machine has no cheap counter; notes read CLOCK_MONOTONIC.\n");
  Producers producers;
  record_table(producers, rounds);
  note_table(producers, rounds);
  off_table(producers, rounds);
  cold_table(producers, 400 * rounds);
  return sink == 42 ? 1 : 0;
}
