// A buffer that is completed twice at the same time is taken once, and rejected once.
#include "pool.h"

Buffer lent(nullptr, 0, 0);
int taken[2];

void* completer(void* which) {
  taken[reinterpret_cast<uint64_t>(which)] = pool.complete(lent.data, 8) == Pool::Completion::kTaken;
  return nullptr;
}

int main() {
  start(1);
  lent = pool.lend();
  record_of(lent) = 5;
  pthread_t first = run(completer, reinterpret_cast<void*>(0));
  pthread_t second = run(completer, reinterpret_cast<void*>(1));
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  assert(taken[0] + taken[1] == 1);
  int delivered = 0;
  pool.take_returned([&](uint32_t, const Buffer&) { ++delivered; });
  assert(delivered == 1);
  return 0;
}
