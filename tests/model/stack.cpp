// The free list under two threads that take and put back (ABA): nobody holds what somebody else holds, nothing is lost.
#include <assert.h>
#include <pthread.h>

#include "capture/index_stack.h"

using kineto_spyre::capture::IndexStack;

IndexStack stack;
std::atomic<uint32_t> next[2];
int held[2];  // plain: two holders are a race

std::atomic<uint32_t>& successor(uint32_t index) { return next[index]; }

void* taker(void*) {
  for (int i = 0; i < 2; ++i) {
    const uint32_t index = stack.pop(successor);
    if (index == IndexStack::kNone) continue;
    ++held[index];
    assert(held[index] == 1);
    --held[index];
    stack.push(index, successor);
  }
  return nullptr;
}

void* holder(void*) {
  const uint32_t first = stack.pop(successor);
  const uint32_t second = stack.pop(successor);
  if (first != IndexStack::kNone) ++held[first];
  if (second != IndexStack::kNone) ++held[second];
  if (first != IndexStack::kNone) {
    --held[first];
    stack.push(first, successor);
  }
  if (second != IndexStack::kNone) {
    --held[second];
    stack.push(second, successor);
  }
  return nullptr;
}

int main() {
  stack.push(0, successor);
  stack.push(1, successor);
  pthread_t first, second;
  pthread_create(&first, nullptr, taker, nullptr);
  pthread_create(&second, nullptr, holder, nullptr);
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  uint32_t found = 0;
  for (uint32_t index; (index = stack.pop(successor)) != IndexStack::kNone;) found |= 1u << index;
  assert(found == 3);
  return 0;
}
