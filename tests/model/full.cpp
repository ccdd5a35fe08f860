// Full: two producers, one buffer, nobody gives it back. One of them gets it, the other one is told that there is none.
#include "pool.h"

int got[2];

void* producer(void* which) {
  got[reinterpret_cast<uint64_t>(which)] = produce(1 + reinterpret_cast<uint64_t>(which));
  return nullptr;
}

int main() {
  start(1);
  pthread_t first = run(producer, reinterpret_cast<void*>(0));
  pthread_t second = run(producer, reinterpret_cast<void*>(1));
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  assert(got[0] + got[1] == 1);
  int delivered = 0;
  pool.take_returned([&](uint32_t, const Buffer& buffer) {
    ++delivered;
    assert(got[record_of(buffer) - 1] == 1);
  });
  assert(delivered == 1);
  return 0;
}
