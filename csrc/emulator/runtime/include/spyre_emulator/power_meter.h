// What a device's work draws over time: energy, traffic and temperature.
//
// In: pieces of work with their place on the timeline (true times on the host's clock; they may lie ahead), each with
// the joules that it takes above idle and the bytes that it moves. Out: for any later time the energy and traffic since
// the last one asked for, and the temperature. The numbers of the power model are in power_model.h.
//
// Short work is put into cells of a millisecond, long work is kept as it is, so that memory is bounded by the time that
// the host runs ahead. Work that became known after its place had passed is shown later by as much, whole. Within a
// cell, energy is spread evenly. One thread at a time: whoever owns a meter guards it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "power_model.h"

namespace kineto_spyre::emulator {

// Above idle. All of it is spread evenly over the work's time.
struct Draw {
  double joules = 0;
  double memory_read = 0, memory_written = 0;  // bytes of device memory
  double received = 0, sent = 0;               // bytes over the link

  Draw& add(const Draw& other, double share) {
    joules += share * other.joules;
    memory_read += share * other.memory_read;
    memory_written += share * other.memory_written;
    received += share * other.received;
    sent += share * other.sent;
    return *this;
  }
};

class PowerMeter {
 public:
  explicit PowerMeter(uint64_t now_ns) : now_ns_(now_ns), first_cell_ns_(now_ns / kCellNs * kCellNs) {}

  // Celsius at the time of the last advance().
  double celsius() const { return celsius_; }

  void add(uint64_t start_ns, uint64_t end_ns, const Draw& draw) {
    if (start_ns < now_ns_) {
      end_ns += now_ns_ - start_ns;
      start_ns = now_ns_;
    }
    if (end_ns - start_ns > kLongNs) {
      long_.push_back({start_ns, end_ns, draw});
    } else {
      spread(start_ns, end_ns, draw);
    }
  }

  // What was drawn from the last advance() to `now_ns`, without idle. Moves the temperature on.
  Draw advance(uint64_t now_ns) {
    Draw drawn;
    if (now_ns <= now_ns_) return drawn;
    take_long(now_ns, drawn);
    while (!cells_.empty() && first_cell_ns_ < now_ns) {
      const uint64_t begin = std::max(first_cell_ns_, now_ns_), end = first_cell_ns_ + kCellNs;
      if (now_ns < end) {
        const double share = static_cast<double>(now_ns - begin) / static_cast<double>(end - begin);
        drawn.add(cells_.front(), share);
        cells_.front().add(Draw(cells_.front()), -share);
        break;
      }
      drawn.add(cells_.front(), 1);
      cells_.pop_front();
      first_cell_ns_ = end;
    }
    if (cells_.empty()) first_cell_ns_ = now_ns / kCellNs * kCellNs;
    const double seconds = static_cast<double>(now_ns - now_ns_) * 1e-9;
    const double target =
        model::kAmbientCelsius + model::kCelsiusPerWatt * (model::kIdleWatts + drawn.joules / seconds);
    celsius_ += (target - celsius_) * (1 - std::exp(-seconds / model::kThermalSeconds));
    now_ns_ = now_ns;
    return drawn;
  }

  // Nothing runs after now_ns: the device is lost.
  void forget_after(uint64_t now_ns) {
    for (Long& work : long_) {
      if (work.end_ns <= now_ns) continue;
      const double share = static_cast<double>(std::max(now_ns, work.start_ns) - work.start_ns) /
                           static_cast<double>(work.end_ns - work.start_ns);
      work.draw = Draw().add(work.draw, share);
      work.end_ns = std::max(now_ns, work.start_ns + 1);
    }
    const uint64_t kept = now_ns <= first_cell_ns_ ? 0 : (now_ns - first_cell_ns_ + kCellNs - 1) / kCellNs;
    if (kept < cells_.size()) cells_.resize(kept);
  }

 private:
  static constexpr uint64_t kCellNs = 1'000'000, kLongNs = 64'000'000;
  struct Long {
    uint64_t start_ns, end_ns;
    Draw draw;
  };

  void spread(uint64_t start_ns, uint64_t end_ns, const Draw& draw) {
    const double length = static_cast<double>(std::max<uint64_t>(end_ns - start_ns, 1));
    size_t cell = (start_ns - first_cell_ns_) / kCellNs;
    for (uint64_t at = start_ns; at < end_ns || at == start_ns; ++cell) {
      const uint64_t stop = std::min(std::max(end_ns, start_ns + 1), first_cell_ns_ + (cell + 1) * kCellNs);
      if (cells_.size() <= cell) cells_.resize(cell + 1);
      cells_[cell].add(draw, static_cast<double>(stop - at) / length);
      at = stop;
    }
  }

  void take_long(uint64_t now_ns, Draw& drawn) {
    for (const Long& work : long_) {
      const uint64_t begin = std::max(now_ns_, work.start_ns), end = std::min(now_ns, work.end_ns);
      if (begin >= end) continue;
      drawn.add(work.draw, static_cast<double>(end - begin) / static_cast<double>(work.end_ns - work.start_ns));
    }
    std::erase_if(long_, [&](const Long& work) { return work.end_ns <= now_ns; });
  }

  uint64_t now_ns_;         // advanced to
  uint64_t first_cell_ns_;  // begin of cells_[0]; not after now_ns_
  std::deque<Draw> cells_;
  std::vector<Long> long_;
  double celsius_ = model::kAmbientCelsius + model::kCelsiusPerWatt * model::kIdleWatts;
};

}  // namespace kineto_spyre::emulator
