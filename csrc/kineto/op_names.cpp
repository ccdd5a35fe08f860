#include "kineto/op_names.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include "capture/op_ring.h"
#include "kineto/forkable_mutex.h"

namespace kineto_spyre::kineto::op_names {
namespace {

using at::RecordFunction;
using at::RecordScope;
namespace op_ring = capture::op_ring;

struct Table {
  static constexpr size_t kMost = 1 << 16;

  ForkableMutex mutex;  // guards the rest
  std::deque<std::string> names{"(names beyond the first 65,535)"};
  std::unordered_map<std::string_view, uint32_t> numbers;

  // The text stays where it is.
  std::pair<uint32_t, const char*> number(const char* name) {
    const std::lock_guard lock(mutex);
    const auto at = numbers.find(name);
    if (at != numbers.end()) return {at->second, names[at->second].c_str()};
    if (names.size() >= kMost) return {0, nullptr};
    names.emplace_back(name);
    const auto number = static_cast<uint32_t>(names.size() - 1);
    numbers.emplace(names.back(), number);
    return {number, names.back().c_str()};
  }
};
Table& table() {
  static auto* const made = new Table;  // callbacks may outlive static destruction
  return *made;
}

// A thread's own.
struct Cache {
  static constexpr size_t kEntries = 256;
  struct Entry {
    const char* address = nullptr;
    const char* text = nullptr;
    uint32_t number = 0;
  };
  Entry entries[kEntries];
};
__attribute__((tls_model("initial-exec"))) constinit thread_local Cache* cache = nullptr;

pthread_key_t thread_end() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, [](void*) { delete std::exchange(cache, nullptr); }) != 0) throw std::bad_alloc();
    return made;
  }();
  return key;
}

__attribute__((noinline, cold)) uint32_t look_up(const char* name, size_t at) noexcept {
  try {
    const auto [number, text] = table().number(name);
    if (cache == nullptr) {
      auto made = std::make_unique<Cache>();
      if (pthread_setspecific(thread_end(), made.get()) != 0) return number;
      cache = made.release();
    }
    if (text != nullptr) cache->entries[at] = {name, text, number};
    return number;
  } catch (...) {
    return 0;
  }
}

uint32_t number_of(const char* name) noexcept {
  const size_t at =
      (reinterpret_cast<uintptr_t>(name) >> 4 ^ reinterpret_cast<uintptr_t>(name) >> 12) % Cache::kEntries;
  if (cache != nullptr) [[likely]] {
    const Cache::Entry& entry = cache->entries[at];
    if (entry.address == name && std::strcmp(entry.text, name) == 0) [[likely]]
      return entry.number;
  }
  return look_up(name, at);
}

std::unique_ptr<at::ObserverContext> begin(const RecordFunction& function) {
  if (!op_ring::is_on()) return nullptr;
  if (function.scope() == RecordScope::USER_SCOPE) {
    op_ring::push_range(function.name());
  } else {
    op_ring::push_op(number_of(function.name()));
  }
  return nullptr;
}

void end(const RecordFunction& function, at::ObserverContext*) {
  if (function.scope() == RecordScope::USER_SCOPE) {
    op_ring::pop_range();
  } else {
    op_ring::pop_op();
  }
}

}  // namespace

void record(bool on) {
  static ForkableMutex mutex;
  static at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  const std::lock_guard lock(mutex);
  if (handle != at::INVALID_CALLBACK_HANDLE) {
    if (on) {
      at::reenableCallback(handle);
    } else {
      at::disableCallback(handle);
    }
  } else if (on) {
    handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&begin, &end)
            .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::USER_SCOPE}));
  }
}

std::vector<std::string> all() {
  Table& names = table();
  const std::lock_guard lock(names.mutex);
  return {names.names.begin(), names.names.end()};
}

}  // namespace kineto_spyre::kineto::op_names
