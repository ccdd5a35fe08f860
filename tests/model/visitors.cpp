// A callback of libaiupti beside take_result() (csrc/capture/capture.cpp): whoever was in the room is waited for, whoever
// comes later finds nothing, so that the capture belongs to take_result() alone.
//
// Built with WITHOUT_ORDER the counting in is relaxed, and the checker must find the race.
#include <assert.h>
#include <pthread.h>
#include <stdint.h>

#include <atomic>

#ifdef WITHOUT_ORDER
constexpr auto kOrder = std::memory_order_relaxed;
#else
constexpr auto kOrder = std::memory_order_seq_cst;
#endif

std::atomic<int> visitors{0};
std::atomic<int> current{1};
int capture[2];  // plain: each place is written by a callback and read by take_result()

void* callback(void* which) {
  visitors.fetch_add(1, kOrder);
  if (current.load(kOrder) == 1) ++capture[reinterpret_cast<uint64_t>(which)];
  visitors.fetch_sub(1, std::memory_order_release);
  return nullptr;
}

int main() {
  pthread_t first, second;
  pthread_create(&first, nullptr, callback, reinterpret_cast<void*>(0));
  pthread_create(&second, nullptr, callback, reinterpret_cast<void*>(1));
  current.store(0, kOrder);
  while (visitors.load(std::memory_order_seq_cst) != 0) {
  }
  const int read = capture[0] + capture[1];
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  assert(read == capture[0] + capture[1]);
  return 0;
}
