// Memory of a ring (ring.h, which draws the states of a frame), cut into frames of one size.
//
// Frames that libaiupti still holds when a ring ends may be written to any time: then the memory stays, and what comes
// back in it is unknown to everybody.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/index_stack.h"
#include "capture/prefaulted_region.h"

namespace kineto_spyre::capture {

class Frames {
 private:
  enum State : uint32_t { kFree, kLent, kReturned };
  struct Frame {
    std::atomic<uint32_t> successor{0};
    std::atomic<uint32_t> state{kFree};
    uint32_t valid = 0;
  };

  uint8_t* data(uint32_t index) const noexcept { return memory_.data() + size_t{index} * frame_bytes_; }
  auto successors() noexcept {
    return [this](uint32_t index) -> std::atomic<uint32_t>& { return frames_[index].successor; };
  }

 public:
  static constexpr size_t kLeastFrame = size_t{64} << 10;
  static constexpr size_t kMostFrame = size_t{4} << 20;
  static constexpr size_t kCount = 64;  // about; fewer if the budget is small

  // Throws std::bad_alloc.
  bool map(size_t budget_bytes, std::string* error) {
    constexpr size_t kPage = 4096;
    frame_bytes_ = std::clamp(budget_bytes / kCount, kLeastFrame, kMostFrame) / kPage * kPage;
    const size_t count = std::max<size_t>(4, budget_bytes / frame_bytes_);
    if (!memory_.map_shared(count * frame_bytes_, error)) return false;
    frames_ = std::vector<Frame>(count);
    for (size_t i = count; i-- != 0;) free_.push(static_cast<uint32_t>(i), successors());
    return true;
  }

  size_t frame_bytes() const noexcept { return frame_bytes_; }
  size_t count() const noexcept { return frames_.size(); }
  bool contains(const void* address) const noexcept { return memory_.contains(address); }
  // Memory behind all frames, so that no thread of libaiupti waits for a page.
  void touch_all() noexcept { memory_.touch(0, memory_.size()); }

  // Null data if all frames are full.
  Buffer lend() noexcept {
    const uint32_t index = free_.pop(successors());
    if (index == IndexStack::kNone) return {nullptr, 0, 0};
    // Release: partner is the acquire in complete().
    frames_[index].state.store(kLent, std::memory_order_release);
    return {data(index), frame_bytes_, 0};
  }

  enum class Completion { kTaken, kOversized, kUnknown };
  Completion complete(uint8_t* buffer, size_t valid) noexcept {
    const auto offset = static_cast<size_t>(buffer - memory_.data());
    if (!contains(buffer) || offset % frame_bytes_ != 0) return Completion::kUnknown;
    const auto index = static_cast<uint32_t>(offset / frame_bytes_);
    Frame& mine = frames_[index];
    uint32_t expected = kLent;
    // Acquire: partner is the release in lend().
    if (!mine.state.compare_exchange_strong(expected, kReturned, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      return Completion::kUnknown;
    }
    mine.valid = static_cast<uint32_t>(std::min(valid, frame_bytes_));
    if (mine.valid == 0) {
      recycle(index);
      return Completion::kTaken;
    }
    uint32_t head = returned_.load(std::memory_order_relaxed);
    do {
      mine.successor.store(head, std::memory_order_relaxed);
      // Release: the records and `valid`; partner is the exchange in take_returned(). Later pushes continue it.
    } while (!returned_.compare_exchange_weak(head, index + 1, std::memory_order_release, std::memory_order_relaxed));
    return valid > frame_bytes_ ? Completion::kOversized : Completion::kTaken;
  }

  // Calls visit(index, Buffer) for each frame that came back since the last call, in that order. One thread at a time.
  template <class Visit>
  void take_returned(Visit visit) {
    // Acquire: partner is the release in complete().
    uint32_t newest = returned_.exchange(0, std::memory_order_acquire);
    uint32_t oldest = 0;  // turn the list round
    while (newest != 0) {
      const uint32_t before = frames_[newest - 1].successor.load(std::memory_order_relaxed);
      frames_[newest - 1].successor.store(oldest, std::memory_order_relaxed);
      oldest = newest;
      newest = before;
    }
    while (oldest != 0) {
      const uint32_t index = oldest - 1;
      oldest = frames_[index].successor.load(std::memory_order_relaxed);
      visit(index, Buffer{data(index), frame_bytes_, frames_[index].valid});
    }
  }

  // A frame that was taken may be lent again.
  void recycle(uint32_t index) noexcept {
    frames_[index].state.store(kFree, std::memory_order_relaxed);  // the push releases it
    free_.push(index, successors());
  }

  // Whether libaiupti has a frame. Acquire: partner is the release in lend().
  bool any_lent() const noexcept {
    return std::ranges::any_of(frames_,
                               [](const Frame& f) { return f.state.load(std::memory_order_acquire) == kLent; });
  }

 private:
  SharedRegion memory_;
  size_t frame_bytes_ = 0;
  std::vector<Frame> frames_;
  alignas(64) IndexStack free_;
  alignas(64) std::atomic<uint32_t> returned_{0};  // index + 1 of the newest, 0 if there is none
};

}  // namespace kineto_spyre::capture
