#include "completion_thread.h"

#include <pthread.h>
#include <signal.h>

#include <thread>

#include "process.h"
#include "spyre_emulator/clock.h"

namespace kineto_spyre::emulator {
namespace {
constexpr uint64_t kLookNs = 10'000'000;
}  // namespace

void CompletionThread::start() {
  std::lock_guard lock(mutex_);
  wake_.notify_all();
  if (started_) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its own threads
  std::thread thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "aiupti");
  thread.detach();
  started_ = true;
}

void CompletionThread::flush() {
  std::unique_lock lock(mutex_);
  if (!started_) return;  // nothing was ever enabled
  const uint64_t wanted = ++rounds_wanted_;
  wake_.notify_all();
  done_.wait(lock, [&] { return rounds_done_ >= wanted; });
}

void CompletionThread::loop() {
  Process& p = process();
  std::unique_lock lock(mutex_);
  while (true) {
    const uint64_t serving = rounds_wanted_;
    const bool flushing = rounds_done_ != serving;
    lock.unlock();
    const bool held_back = p.filler.fill(flushing);
    lock.lock();
    if (flushing) {
      rounds_done_ = serving;
      done_.notify_all();
    }
    if (rounds_wanted_ != serving) continue;
    if (held_back || p.enabled.load(std::memory_order_relaxed) != 0) {
      wake_.wait_until(lock, host_time_point(host_now_ns() + kLookNs));
    } else {
      wake_.wait(lock);
    }
  }
}

}  // namespace kineto_spyre::emulator
