// Scratch memory goes round between three borrowers, each of which has it counted when it gives it back: each record is
// counted once, in memory that nobody else writes to, or its buffer is the sink's.
#include <assert.h>
#include <pthread.h>

#define KINETO_SPYRE_SCRATCH_BUFFERS 1
#include "capture/scratch_buffers.h"

using kineto_spyre::capture::ScratchBuffers;

ScratchBuffers scratch;
int sunk[3];
int counted[3];

void* borrower(void* which) {
  const auto me = reinterpret_cast<uint64_t>(which);
  uint8_t* buffer = scratch.lend();
  const bool sink = scratch.is_sink(buffer);
  if (!sink) buffer[0] = static_cast<uint8_t>(me + 1);
  const auto dropped = scratch.complete(buffer, 1, [&](uint8_t* data, size_t valid) {
    assert(valid == 1 && data[0] == me + 1);
    data[0] = 0;
    return uint64_t{1};
  });
  assert(dropped.uncounted == sink);
  sunk[me] = sink;
  counted[me] = static_cast<int>(dropped.records);
  return nullptr;
}

int main() {
  pthread_t threads[3];
  for (uint64_t i = 0; i < 3; ++i) pthread_create(&threads[i], nullptr, borrower, reinterpret_cast<void*>(i));
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  int all = 0;
  for (int i = 0; i < 3; ++i) all += counted[i] + sunk[i];
  assert(all == 3);
  return 0;
}
