// Wrap: one buffer goes round while a producer writes and a reader gives it back. Every record is delivered or dropped.
#include "pool.h"

int delivered;
uint64_t last;

void take() {
  pool.take_returned([](uint32_t index, const Buffer& buffer) {
    assert(record_of(buffer) > last);
    last = record_of(buffer);
    ++delivered;
    pool.recycle(index);
  });
}

int dropped;

void* producer(void*) {
  for (uint64_t value = 1; value <= 3; ++value) dropped += !produce(value);
  return nullptr;
}

int main() {
  start(1);
  pthread_t thread = run(producer, nullptr);
  take();
  take();
  pthread_join(thread, nullptr);
  take();
  assert(delivered + dropped == 3);
  assert(delivered >= 1);
  return 0;
}
