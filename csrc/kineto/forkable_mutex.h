// A mutex that a forked child may lock, whoever held it in the parent: that thread is not in the child, and would never
// unlock it. What it guards may be half changed then; whoever uses one sees to that.
#pragma once

#include <pthread.h>

#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace kineto_spyre::kineto {

// For objects that are never destroyed: of static storage, or leaked on purpose.
class ForkableMutex {
 public:
  ForkableMutex() noexcept {
    static_assert(std::is_trivially_destructible_v<ForkableMutex>);
    [[maybe_unused]] static const int watching = pthread_atfork(nullptr, nullptr, renew_all);
    const std::lock_guard lock(list_mutex);
    next_ = std::exchange(first, this);
  }
  ForkableMutex(const ForkableMutex&) = delete;
  ForkableMutex& operator=(const ForkableMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // The child has one thread.
  static void renew_all() {
    new (&list_mutex) std::mutex;
    for (ForkableMutex* one = first; one != nullptr; one = one->next_) new (&one->mutex_) std::mutex;
  }

  static inline constinit std::mutex list_mutex;  // guards the next one
  static inline constinit ForkableMutex* first = nullptr;

  std::mutex mutex_;
  ForkableMutex* next_ = nullptr;
};

}  // namespace kineto_spyre::kineto
