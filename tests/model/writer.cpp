// One owner of a RecordWriter (csrc/emulator/aiupti/include/emulated_aiupti/record_writer.h), one flusher: every record
// that was written comes back once, whole, whatever the flusher takes away and when; a source that is closed and
// flushed is owed no buffer.
//
// With -DASYMMETRIC the flusher's membarrier() is a full fence in the owner, which stands where the owner's compiler
// fence is; run.sh puts it there, in a copy.
#include <assert.h>
#include <pthread.h>

#include "emulated_aiupti/record_writer.h"

using kineto_spyre::emulator::Buffer;
using kineto_spyre::emulator::RecordWriter;

#ifdef ASYMMETRIC
constexpr bool kAsymmetric = true;
#else
constexpr bool kAsymmetric = false;
#endif
#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef FLUSHES
#define FLUSHES 2
#endif
constexpr int kBuffers = 6, kWords = 2;  // two records a buffer

alignas(8) uint64_t memory[kBuffers][kWords];
std::atomic<int> lent{0}, returned{0}, seen{0};
std::atomic<int> records{0};
std::atomic<bool> open_for_lending{true};

bool lend(Buffer* buffer) {
  if (!open_for_lending.load(std::memory_order_seq_cst)) return false;
  const int index = lent.fetch_add(1, std::memory_order_relaxed);
  assert(index < kBuffers);
  *buffer = {reinterpret_cast<uint8_t*>(memory[index]), sizeof(memory[index]), 0, nullptr};
  return true;
}

void give_back(const Buffer& buffer, size_t valid) {
  auto* words = reinterpret_cast<uint64_t*>(buffer.data);  // plain: a record still being written is a race
  const auto count = [&](size_t i) {
    records.fetch_add(1, std::memory_order_relaxed);
    seen.fetch_add(static_cast<int>(words[i]), std::memory_order_relaxed);
  };
  if (valid >= 8) count(0);
  if (valid >= 16) count(1);
  returned.fetch_add(1, std::memory_order_relaxed);
}

constinit RecordWriter writer({lend, give_back}, kAsymmetric);

void flush() {
  writer.hide();
  if (kAsymmetric) std::atomic_thread_fence(std::memory_order_seq_cst);
  writer.take();
}

int written = 0, sum = 0;

void* owner(void*) {
  for (int i = 1; i <= RECORDS; ++i) {
    const bool done = writer.write(8, [&](void* place) { *static_cast<uint64_t*>(place) = static_cast<uint64_t>(i); });
    if (done) {
      ++written;
      sum += i;
    }
  }
  return nullptr;
}

int main() {
  pthread_t thread;
  pthread_create(&thread, nullptr, owner, nullptr);
  for (int i = 0; i + 1 < FLUSHES; ++i) flush();
  open_for_lending.store(false, std::memory_order_seq_cst);
  flush();
  const int out = lent.load(std::memory_order_relaxed) - returned.load(std::memory_order_relaxed);
  assert(out == 0);
  pthread_join(thread, nullptr);
  assert(records.load(std::memory_order_relaxed) == written);
  assert(seen.load(std::memory_order_relaxed) == sum);
  return 0;
}
