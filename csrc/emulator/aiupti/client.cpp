#include "client.h"

#include <thread>

#include "spyre_emulator/faults.h"

namespace kineto_spyre::emulator {
namespace {

constexpr size_t kTruncatedBytes = 24;

thread_local bool t_in_callback = false;

void call(AIUpti_BuffersCallbackCompleteFunc callback, const Buffer& buffer, size_t valid) {
  const bool before = t_in_callback;
  t_in_callback = true;
  callback(buffer.data, buffer.size, valid);
  t_in_callback = before;
}

}  // namespace

bool Client::in_callback() { return t_in_callback; }

void Client::set(AIUpti_BuffersCallbackRequestFunc request, AIUpti_BuffersCallbackCompleteFunc complete) {
  request_.store(request, std::memory_order_release);    // partner: request()'s acquire
  complete_.store(complete, std::memory_order_release);  // partner: complete()'s acquire
}

bool Client::request(Buffer* buffer) {
  if (closed()) return false;
  if (Faults* faults = current_faults(); faults != nullptr) {
    if (faults->no_buffers.used_up()) return false;
    if (faults->buffer_limit != 0 && requested_.fetch_add(1, std::memory_order_relaxed) >= faults->buffer_limit) {
      return false;
    }
  }
  const auto callback = request_.load(std::memory_order_acquire);  // partner: set()'s release
  if (callback == nullptr) return false;
  callback(&buffer->data, &buffer->size, &buffer->max_records);
  return buffer->data != nullptr && buffer->size != 0;
}

void Client::complete(const Buffer& buffer, size_t valid) {
  const auto callback = complete_.load(std::memory_order_acquire);  // partner: set()'s release
  if (callback == nullptr || closed()) return;
  bool twice = false;
  if (Faults* faults = current_faults(); faults != nullptr) {
    if (faults->truncate.hit() && valid > kTruncatedBytes) valid -= kTruncatedBytes;
    twice = faults->complete_twice.hit();
    if (faults->strange_thread) {
      std::thread([&] { call(callback, buffer, valid); }).join();
      if (twice) call(callback, buffer, valid);
      return;
    }
  }
  call(callback, buffer, valid);
  if (twice) call(callback, buffer, valid);
}

}  // namespace kineto_spyre::emulator
