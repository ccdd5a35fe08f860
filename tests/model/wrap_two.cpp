// Wrap and full, two producers and a reader that gives buffers back, over two buffers. The second producer writes once:
// with two each the checker takes an hour.
#include "pool.h"

int delivered;
int dropped[2];

void take() {
  pool.take_returned([](uint32_t index, const Buffer& buffer) {
    assert(buffer.valid == 8 && record_of(buffer) != 0);
    record_of(buffer) = 0;
    ++delivered;
    pool.recycle(index);
  });
}

void* producer(void* which) {
  const auto producer = reinterpret_cast<uint64_t>(which);
  for (uint64_t value = 1; value <= 2 - producer; ++value) dropped[producer] += !produce(value);
  return nullptr;
}

int main() {
  start(2);
  pthread_t first = run(producer, reinterpret_cast<void*>(0));
  pthread_t second = run(producer, reinterpret_cast<void*>(1));
  take();
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  take();
  assert(delivered + dropped[0] + dropped[1] == 3);
  return 0;
}
