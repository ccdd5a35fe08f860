// Producers that wait for work, a consumer beside them, and a burst's time.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "hot_path/contenders.h"

namespace hot_path {

inline double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline void pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

inline double median(std::vector<double> values) {
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

inline double burst(Producers& producers, Contender& contender, int active, Consumer consumer, uint64_t* delivered) {
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

}  // namespace hot_path
