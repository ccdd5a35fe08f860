// Publish and drain, two producers: each record is taken once and whole, whenever the reader looks.
#include "pool.h"

int seen[3];

void take() {
  pool.take_returned([](uint32_t, const Buffer& buffer) {
    assert(buffer.valid == 8);
    ++seen[record_of(buffer)];
  });
}

void* producer(void* value) {
  assert(produce(reinterpret_cast<uint64_t>(value)));
  return nullptr;
}

int main() {
  start(2);
  pthread_t first = run(producer, reinterpret_cast<void*>(1));
  pthread_t second = run(producer, reinterpret_cast<void*>(2));
  take();
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  take();
  assert(seen[1] == 1 && seen[2] == 1);
  return 0;
}
