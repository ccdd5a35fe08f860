// What a device's work draws, added up where it takes its place; and the part of the C interface that tells of it.
#include <cstring>

#include "c_interface.h"
#include "spyre_emulator/power_model.h"

namespace kineto_spyre::emulator {

constinit std::atomic<bool> metering{false};

Draw WorkItem::draw() const {
  const auto all = static_cast<double>(count);
  Draw draw{all * piece_joules()};
  const double moved = all * static_cast<double>(bytes);
  if (work == WorkKind::kKernel) {
    draw.memory_read = all * static_cast<double>(bytes_read);
    draw.memory_written = moved - draw.memory_read;
    return draw;
  }
  if (work == WorkKind::kFill || copy_kind != SPYRE_MEMCPY_DTOH) draw.memory_written = moved;
  if (work == WorkKind::kCopy && copy_kind != SPYRE_MEMCPY_HTOD) draw.memory_read = moved;
  if (work == WorkKind::kCopy && copy_kind == SPYRE_MEMCPY_HTOD) draw.received = moved;
  if (work == WorkKind::kCopy && copy_kind == SPYRE_MEMCPY_DTOH) draw.sent = moved;
  return draw;
}

void Device::meter(const WorkItem& item) {
  meter_->add(item.start_ns, item.end_ns(), item.draw());
  Energy& energy = energy_[item.name];
  energy.joules += static_cast<double>(item.count) * item.piece_joules();
  energy.count += item.count;
  energy.ns += item.count * item.duration_ns;
}

void Device::throttle(WorkItem& item) const {
  if (item.work != WorkKind::kKernel || !throttled_.load(std::memory_order_relaxed)) return;
  item.duration_ns = static_cast<uint64_t>(static_cast<double>(item.duration_ns) * model::kThrottleFactor);
}

void Device::start_meter(uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  meter_ = std::make_unique<PowerMeter>(now_ns);
  energy_.clear();
  metered_.store(true, std::memory_order_relaxed);
}

Draw Device::read_meter(uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  const Draw drawn = meter_->advance(now_ns);
  const Faults* faults = current_faults();
  const double limit = faults == nullptr ? 0 : faults->throttle[static_cast<size_t>(index)];
  throttled_.store(limit != 0 && meter_->celsius() >= limit, std::memory_order_relaxed);
  return drawn;
}

double Device::celsius() {
  std::lock_guard lock(mutex_);
  return meter_->celsius();
}

std::map<std::string, Energy> Device::energy() {
  std::lock_guard lock(mutex_);
  return energy_;
}

}  // namespace kineto_spyre::emulator

using namespace kineto_spyre::emulator;

spyreError_t spyreWriteMetrics(const char* directory) {
  std::lock_guard lock(setup_mutex());
  Machine* machine = g_machine.load(std::memory_order_acquire);
  if (machine == nullptr) return no_machine();
  if (directory != nullptr && machine->metrics != nullptr && machine->metrics->directory() == directory) {
    return SPYRE_SUCCESS;
  }
  machine->metrics.reset();
  metering.store(directory != nullptr, std::memory_order_relaxed);
  if (directory == nullptr) return SPYRE_SUCCESS;
  std::string problem;
  machine->metrics = MetricsWriter::start(directory, machine->devices, &problem);
  return machine->metrics != nullptr ? SPYRE_SUCCESS : fail(SPYRE_ERROR_INVALID_VALUE, problem);
}

spyreError_t spyreGetMetricsPath(int32_t index, char* path, uint64_t size) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  std::lock_guard lock(setup_mutex());
  const auto& metrics = g_machine.load(std::memory_order_acquire)->metrics;
  const std::string found = metrics == nullptr ? "" : metrics->path(index);
  if (path == nullptr || size <= found.size()) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "the path of the metrics file needs ", found.size() + 1, " bytes");
  }
  std::memcpy(path, found.c_str(), found.size() + 1);
  return SPYRE_SUCCESS;
}

spyreError_t spyreGetEnergy(int32_t index, void (*work)(const spyreEnergy_t*, void*), void* argument) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  for (const auto& [name, energy] : device->energy()) {
    const spyreEnergy_t one{name.c_str(), energy.joules, energy.count, energy.ns};
    work(&one, argument);
  }
  return SPYRE_SUCCESS;
}
