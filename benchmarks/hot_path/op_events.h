// Who takes op events: the floor, and the plugin.
#pragma once

#include "hot_path/contenders.h"

namespace hot_path {

// An op event is 16 bytes and a clock reading; here a burst is so many of them.
struct OpEventFloor : Contender {
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

// Op events have no live consumer: they are read when the window is closed. Each burst is a window of its own.
struct OurOpEvents : Contender {
  std::string name() const override { return "plugin: push_op, pop_op"; }
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

}  // namespace hot_path
