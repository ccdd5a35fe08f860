// Scratch memory goes round between two borrowers and the one that counts: each record is counted once, in memory that
// nobody else writes to, or its buffer is the sink's.
#include <assert.h>
#include <pthread.h>

#define KINETO_SPYRE_SCRATCH_BUFFERS 1
#include "capture/scratch_buffers.h"

using kineto_spyre::capture::ScratchBuffers;

ScratchBuffers scratch;
int sunk[2];
int counted;

void count() {
  scratch.count([](uint8_t* data, size_t valid) {
    assert(valid == 1 && data[0] == 1);
    data[0] = 0;
    ++counted;
    return uint64_t{1};
  });
}

void* borrower(void* which) {
  uint8_t* buffer = scratch.lend();
  const bool sink = scratch.is_sink(buffer);
  if (!sink) buffer[0] = 1;
  const bool uncounted = scratch.complete(buffer, 1);
  assert(uncounted == sink);
  sunk[reinterpret_cast<uint64_t>(which)] = sink;
  return nullptr;
}

int main() {
  pthread_t first, second;
  pthread_create(&first, nullptr, borrower, reinterpret_cast<void*>(0));
  pthread_create(&second, nullptr, borrower, reinterpret_cast<void*>(1));
  count();
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  count();
  assert(counted + sunk[0] + sunk[1] == 2);
  return 0;
}
