// Closing a window while a thread pushes op events (csrc/capture/op_events.h): what close() leaves behind is whole, and
// nobody adds to it. membarrier() is a full fence in the thread, wherever that is; it stands where the event's compiler
// fence is, since everything that the fence has to order is before or after that place.
//
// Built with WITHOUT_FENCE the thread's fence is missing, and the checker must find the race: it shows that it looks.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include <atomic>

std::atomic<uint32_t> gate{2};
std::atomic<uint32_t> inside{0};
int events;  // plain, as an op event is

void* thread(void*) {
  for (int i = 0; i < 2; ++i) {
    inside.store(1, std::memory_order_relaxed);
#ifndef WITHOUT_FENCE
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    if (gate.load(std::memory_order_relaxed) == 2) ++events;
    inside.store(0, std::memory_order_release);
  }
  return nullptr;
}

int main() {
  pthread_t pusher;
  pthread_create(&pusher, nullptr, thread, nullptr);
  gate.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (inside.load(std::memory_order_seq_cst) != 0) sched_yield();
  const int read = events;
  pthread_join(pusher, nullptr);
  assert(read == events);
  return 0;
}
