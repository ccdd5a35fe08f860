// A callback of libaiupti beside take_result() (csrc/capture/in_flight.h itself): whoever was in flight is waited for,
// whoever comes later finds nothing, so that the capture belongs to take_result() alone.
#include <assert.h>
#include <pthread.h>
#include <stdint.h>

#include "capture/in_flight.h"

using kineto_spyre::capture::InFlight;

std::atomic<int> current{1};
int capture[2];  // plain: each place is written by a callback and read by take_result()

void* callback(void* which) {
  const InFlight in_flight;
  if (current.load(std::memory_order_seq_cst) == 1) ++capture[reinterpret_cast<uint64_t>(which)];
  return nullptr;
}

int main() {
  pthread_t first, second;
  pthread_create(&first, nullptr, callback, reinterpret_cast<void*>(0));
  pthread_create(&second, nullptr, callback, reinterpret_cast<void*>(1));
  current.store(0, std::memory_order_seq_cst);
  kineto_spyre::capture::wait_for_callbacks();
  const int read = capture[0] + capture[1];
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  assert(read == capture[0] + capture[1]);
  return 0;
}
