// The machine and its devices: what they hold, how a device's thread comes and goes, and what the loss of one leaves.
#include "machine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <random>

namespace kineto_spyre::emulator {

Device::Device(int32_t device_index, const MachineConfig& config, uint64_t seed)
    : index(device_index), memory(config.memory_bytes), config_(config), seed_(seed) {
  streams_.push_back(std::make_unique<spyreStream_st>(*this, 1, false));
  default_stream_ = streams_.front().get();
  batch_.reserve(kBatchItems);
  // The program's signal handlers are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), ("spyre-dev" + std::to_string(index)).c_str());
}

Device::~Device() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
}

EmulatedClock Device::clock() const {
  const Faults* faults = current_faults();
  return faults == nullptr ? EmulatedClock{} : faults->clocks[static_cast<size_t>(index)];
}

spyreStream_st* Device::create_stream() {
  std::lock_guard lock(mutex_);
  if (streams_.size() == kMaxStreams) return nullptr;
  streams_.push_back(std::make_unique<spyreStream_st>(*this, static_cast<uint32_t>(streams_.size() + 1), true));
  return streams_.back().get();
}

spyreStream_st* Device::stream(uint32_t id) {
  std::lock_guard lock(mutex_);
  while (streams_.size() < id) {
    streams_.push_back(std::make_unique<spyreStream_st>(*this, static_cast<uint32_t>(streams_.size() + 1), false));
  }
  return streams_[id - 1].get();
}

void Device::destroy_stream(spyreStream_st& stream) {
  std::lock_guard lock(mutex_);
  stream.destroyed = true;
}

bool Device::has_live_streams() {
  std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream->owned_by_program && !stream->destroyed) return true;
  }
  return false;
}

void Device::look_again(bool mend) {
  {
    std::lock_guard lock(mutex_);
    if (mend) lost_.store(false, std::memory_order_release);
  }
  work_.notify_all();
  progress_.notify_all();
}

// How many of the queue's oldest items were over by then: only their records are still to be handed out.
size_t Device::ended(spyreStream_st& stream, uint64_t now) {
  for (size_t i = 0; i < stream.queue.size(); ++i) {
    WorkItem& item = stream.queue.at(i);
    const bool whole = item.item == ItemKind::kWork && item.placed && !item.open_end && item.hung_by == nullptr &&
                       (!item.has_function || item.has_run);
    if (!whole || item.start_ns + item.duration_ns > now) return i;
    if (item.end_ns() > now) {
      item.count = (now - item.start_ns - item.duration_ns) / item.period_ns() + 1;
      return i + 1;
    }
  }
  return stream.queue.size();
}

void Device::lose(uint64_t now) {
  lost_.store(true, std::memory_order_release);
  ++generation_;
  if (meter_ != nullptr) meter_->forget_after(now);
  for (const auto& stream : streams_) {
    const size_t kept = ended(*stream, now);
    for (size_t i = kept; i < stream->queue.size(); ++i) {
      if (const WorkItem& item = stream->queue.at(i); item.item == ItemKind::kMarker) {
        (*item.point)->lost.store(true, std::memory_order_relaxed);
        (*item.point)->end_ns.store(now, std::memory_order_release);
      }
    }
    stream->queue.truncate(kept);
    stream->tail_ns = std::min(stream->tail_ns, now);
    stream->ready_ns = std::min(stream->ready_ns, now);
    stream->unplaced = 0;
    stream->functions_run.store(stream->functions, std::memory_order_release);
  }
  progress_.notify_all();
}

spyreScratchpad_t Device::scratchpad() {
  std::lock_guard lock(mutex_);
  const uint64_t capacity = model::kCores * model::kScratchpadBytesPerCore;
  return {.capacity = capacity,
          .usable = static_cast<uint64_t>(model::kScratchpadShare * static_cast<double>(capacity)),
          .largest = scratchpad_largest_,
          .kernels = scratchpad_kernels_,
          .spills = scratchpad_spills_};
}

void Device::reset_scratchpad() {
  std::lock_guard lock(mutex_);
  scratchpad_largest_ = scratchpad_kernels_ = scratchpad_spills_ = 0;
}

Machine::Machine(const MachineConfig& wanted) : config(wanted) {
  const uint64_t seed =
      config.has_seed ? config.seed : (uint64_t{std::random_device{}()} << 32 | std::random_device{}());
  for (int32_t i = 0; i < config.devices; ++i) devices.push_back(std::make_unique<Device>(i, config, seed));
}

bool Machine::in_use() {
  if (events.load(std::memory_order_relaxed) != 0) return true;
  for (const auto& device : devices) {
    if (!device->memory.empty() || device->has_live_streams()) return true;
  }
  return false;
}

}  // namespace kineto_spyre::emulator
