#include "writers.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "process.h"
#include "spyre_emulator/faults.h"

namespace kineto_spyre::emulator {
namespace {

constexpr int kTries = 16;  // to get a chunk when all are in use

struct ThreadEnd {
  ~ThreadEnd() {
    if (t_self.writer == nullptr) return;
    t_self.writer->taken.store(false, std::memory_order_release);  // partner: find_or_make()'s exchange
    t_self.writer = nullptr;
  }
};

}  // namespace

constinit thread_local ThreadState t_self __attribute__((tls_model("initial-exec")));

Writer::Writer(bool asymmetric) : records({Writers::lend, Writers::give_back}, asymmetric) {}

void know_thread() {
  if (t_self.tid != 0) [[likely]]
    return;
  t_self.pid = static_cast<uint32_t>(getpid());
  t_self.tid = static_cast<uint32_t>(syscall(SYS_gettid));
}

void forget_thread() noexcept { t_self = {}; }  // the writer and its chunk are the parent's

Writer* Writers::find_or_make() {
  thread_local ThreadEnd end [[maybe_unused]];
  // Partner: the release below.
  for (Writer* writer = first_.load(std::memory_order_acquire); writer != nullptr; writer = writer->next) {
    bool free = false;
    if (!writer->taken.load(std::memory_order_relaxed) &&
        writer->taken.compare_exchange_strong(free, true, std::memory_order_acquire)) {  // partner: ~ThreadEnd
      return t_self.writer = writer;
    }
  }
  auto* writer = new (std::nothrow) Writer(asymmetric_);
  if (writer == nullptr) return nullptr;
  writer->next = first_.load(std::memory_order_relaxed);
  // Partner: the loops' acquire.
  while (!first_.compare_exchange_weak(writer->next, writer, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return t_self.writer = writer;
}

void Writers::collect() {
  Writer* const first = first_.load(std::memory_order_acquire);  // partner: find_or_make()'s release
  for (Writer* writer = first; writer != nullptr; writer = writer->next) writer->records.hide();
  if (asymmetric_) ProcessBarrier::barrier();
  for (Writer* writer = first; writer != nullptr; writer = writer->next) writer->records.take();
}

Shape Writers::shape_of(const uint8_t* buffer) {
  std::lock_guard lock(shapes_mutex_);
  return shapes_[buffer];
}

bool Writers::lend(Buffer* buffer) {
  Process& p = process();
  // All kinds disabled and a flush done, no buffer is out. Partner: aiuptiActivityDisable, before that flush.
  if (p.enabled.load(std::memory_order_seq_cst) == 0) return false;
  const Shape shape = t_self.writer->shape;
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->buffer_per_thread) {
    if (!p.client.request(buffer)) return false;
    std::lock_guard lock(p.writers.shapes_mutex_);
    p.writers.shapes_[buffer->data] = shape;
    return true;
  }
  Chunk* chunk = p.staging.take();
  for (int tries = 0; chunk == nullptr && tries < kTries; ++tries) {
    p.filler.fill(false);  // the completion thread is far behind
    chunk = p.staging.take();
  }
  if (chunk == nullptr) return false;
  chunk->shape = shape;
  *buffer = {chunk->data, Chunk::kBytes, 0, chunk};
  return true;
}

void Writers::give_back(const Buffer& buffer, size_t valid) {
  Process& p = process();
  if (valid == 0 && buffer.chunk != nullptr) {
    p.staging.put_back(static_cast<Chunk*>(buffer.chunk));
    return;
  }
  while (!p.staging.push({buffer, valid})) {
    p.filler.fill(false);
    sched_yield();
  }
}

}  // namespace kineto_spyre::emulator
