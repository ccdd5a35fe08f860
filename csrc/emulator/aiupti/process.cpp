#include "process.h"

#include <pthread.h>

#include <cstdlib>
#include <new>

namespace kineto_spyre::emulator {
namespace {

alignas(Process) unsigned char g_storage[sizeof(Process)];

void in_forked_child() {
  forget_thread();
  RecordIterator::forget();
  if (g_process.load(std::memory_order_relaxed) != nullptr) g_process.store(new (g_storage) Process);
}

void close_at_exit() {
  if (!Client::in_callback()) process().filler.close();
}

}  // namespace

std::atomic<Process*> g_process{nullptr};

Process& make_process() {
  static Process* const made = [] {
    pthread_atfork(nullptr, nullptr, in_forked_child);
    auto* fresh = new (g_storage) Process;
    g_process.store(fresh, std::memory_order_release);  // partner: process()'s acquire
    std::atexit(close_at_exit);
    return fresh;
  }();
  return *made;
}

}  // namespace kineto_spyre::emulator
