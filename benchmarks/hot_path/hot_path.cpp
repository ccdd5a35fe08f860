// What it costs the profiled program that it is being profiled: a record, a buffer, an op event, and a profiler that is
// off.
//
//   hot_path [rounds]                 prints the tables; more rounds, steadier medians (default 25)
//   hot_path op_events <pairs>        makes that many pairs of op events and nothing else, for instruction counters
//
// Which rows time what. A record is written by the library: the row "emulated library" is about the emulated one, on a
// real card it is the vendor's. The plugin's own are the rows that say "plugin": lending a buffer and taking it back
// (once in 32 MiB), pushing and popping an op (on each op), and being off (on each op). Targets: a record of the
// emulated library at most 1.25 times the floor, an op event at most 1.5 times its floor, off at most 1.1 times a bare
// load and branch, a buffer lent and taken back at most a microsecond.
//
// How it measures. Machines are noisy, so no figure stands alone: in each round every contender has its turn, in an
// order that changes from round to round, and what is compared is the ratio to the floor of the same round. Printed are
// medians over rounds. The floor is what can't be saved: the record filled and the clock read, into memory of the same
// size, published to nobody. A burst is 20,000 records of 96 bytes with one clock reading each, unless said otherwise.
#include <cstring>

#include "hot_path/harness.h"
#include "hot_path/op_events.h"

namespace {

using namespace kineto_spyre;
using namespace hot_path;

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
  contenders.push_back(std::make_unique<Emulated>());
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

void op_event_table(Producers& producers, int rounds) {
  OpEventFloor floor;
  OurOpEvents ours;
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
          producers.run(active, [](int) {  // a thread's first event finds its place; it is not what is measured
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
      "\nAn op event: ns, and the median ratio to the floor of the same round. Op events are read\n"
      "when the window is closed; there is no consumer beside it. %llu made, %llu kept.\n\n",
      static_cast<unsigned long long>(made), static_cast<unsigned long long>(kept));
  std::printf("%-44s%26s%26s\n", "", "1 producer", "2 producers");
  std::printf("%-44s%26.1f%26.1f\n", floor.name().c_str(), median(ns[0][0]), median(ns[0][1]));
  std::printf("%-44s%26s%26s\n", ours.name().c_str(), cell(median(ns[1][0]), median(ratios[0])).c_str(),
              cell(median(ns[1][1]), median(ratios[1])).c_str());
}

// A buffer asked for and given back, with one granule's worth of records in it, by threads that do nothing else.
void buffer_table(Producers& producers, int rounds) {
  constexpr size_t kCalls = 2'000;
  std::vector<double> ns[2];
  for (int round = -2; round < rounds; ++round) {
    for (const int active : {1, 2}) {
      capture::Config config;
      config.op_events = false;
      std::string error;
      if (!capture::prepare(config, &error)) {
        std::fprintf(stderr, "%s\n", error.c_str());
        std::exit(1);
      }
      capture::open_window();
      const double each = producers.run(active, [](int) {
        for (size_t i = 0; i < kCalls; ++i) {
          uint8_t* buffer = nullptr;
          size_t size = 0, max_records = 0;
          capture::on_buffer_requested(&buffer, &size, &max_records);
          buffer[0] = 1;
          capture::on_buffer_completed(buffer, size, 4096);
        }
      }) / kCalls;
      capture::abandon();
      if (round >= 0) ns[active - 1].push_back(each);
    }
  }
  std::printf("\nA buffer lent and taken back; ns.\n\n%-44s%26s%26s\n%-44s%26.0f%26.0f\n", "", "1 producer",
              "2 producers", "plugin: requested, completed", median(ns[0]), median(ns[1]));
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
  std::printf("\nOff: a function that loads and branches, and push_op() with no profiler running; ns a call.\n\n");
  std::printf("%-44s%26.2f\n%-44s%19.2f (%.2f)\n", "a bare load and branch", median(bare_ns), "plugin: push_op, off",
              median(ours_ns), median(ratios));
}

// One record after the caches were filled with something else: percentiles of single costs, the clock's own included.
void cold_table(Producers& producers, int samples) {
  Floor floor;
  Emulated ours;
  MutexVector vector;
  Contender* contenders[] = {&floor, &ours, &vector};
  std::vector<double> ns[3];
  std::vector<double> op_event_ns[2];
  OpEventFloor op_event_floor;
  OurOpEvents op_events;
  op_events.open();
  const capture::ClockPoint begin = capture::clock_point();
  producers.run(1, [&](int) {
    std::vector<uint8_t> other(4 << 20);
    const auto thrash = [&] {
      for (size_t i = 0; i < other.size(); i += 64) other[i] = static_cast<uint8_t>(other[i] + 1);
    };
    capture::push_op(1);
    for (Contender* contender : contenders) contender->produce(0, 1);  // the first one finds its place
    op_event_floor.produce(0, 1);
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
          op_event_floor.produce(0, 1);
        } else {
          capture::push_op(1);
        }
        op_event_ns[which].push_back(static_cast<double>(capture::fast_ticks() - before));
      }
    }
  });
  const capture::ClockPoint end = capture::clock_point();
  op_events.drain();
  const double ns_per_tick = static_cast<double>(end.ns - begin.ns) / static_cast<double>(end.ticks - begin.ticks);

  std::printf(
      "\nOne record, or op event, with cold caches (4 MiB of other memory written in between): ns, and in brackets "
      "the\n"
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
  row("floor: 16 bytes + clock", op_event_ns[0], op_event_ns[0]);
  row("plugin: push_op", op_event_ns[1], op_event_ns[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "op_events") == 0) {
    OurOpEvents op_events;
    op_events.open();
    const auto pairs = static_cast<size_t>(std::strtoull(argv[2], nullptr, 10));
    op_events.produce(0, 2 * pairs);
    std::printf("%llu op events\n", static_cast<unsigned long long>(op_events.drain()));
    return 0;
  }
  const int rounds = argc == 2 ? std::atoi(argv[1]) : 25;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: hot_path [rounds] | hot_path op_events <pairs>\n");
    return 2;
  }
  if (!capture::has_fast_ticks()) std::printf("This machine has no cheap counter; op events read CLOCK_MONOTONIC.\n");
  Producers producers;
  record_table(producers, rounds);
  op_event_table(producers, rounds);
  buffer_table(producers, rounds);
  off_table(producers, rounds);
  cold_table(producers, 400 * rounds);
  return sink == 42 ? 1 : 0;
}
