#include "metrics_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "machine.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kIntervalMs = 10;
constexpr uint64_t kMs = 1'000'000;

// The file's numbers are little endian on every machine.
template <typename T>
T little(T value) {
  if constexpr (std::endian::native == std::endian::little) {
    return value;
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

class Bytes {
 public:
  void u32(uint64_t value) { put(little(static_cast<uint32_t>(value))); }
  void u64(uint64_t value) { put(little(value)); }
  char* data() { return bytes_; }
  size_t size() const { return size_; }

 private:
  template <typename T>
  void put(T value) {
    std::memcpy(bytes_ + size_, &value, sizeof(value));
    size_ += sizeof(value);
  }
  char bytes_[512];
  size_t size_ = 0;
};

struct Metric {
  uint32_t id;
  uint64_t value;
};

template <size_t N>
constexpr uint32_t section_bytes(const Metric (&)[N]) {
  return 32 + 16 * N;
}

template <size_t N>
void put_section(Bytes& out, uint32_t id, uint32_t sequence, uint64_t now_ms, const Metric (&metrics)[N]) {
  out.u32(id);
  out.u32(section_bytes(metrics));
  out.u32(sequence);
  out.u32(N);
  out.u64(now_ms);
  out.u32(kIntervalMs);
  out.u32(0);
  for (const Metric& metric : metrics) {
    out.u32(metric.id);
    out.u32(1);
  }
  for (const Metric& metric : metrics) out.u64(metric.value);
}

bool write_all(int descriptor, const char* data, size_t size) {
  return pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size);
}

}  // namespace

std::unique_ptr<MetricsWriter> MetricsWriter::start(const std::string& directory,
                                                    const std::vector<std::unique_ptr<Device>>& devices,
                                                    std::string* error) {
  std::unique_ptr<MetricsWriter> writer(new MetricsWriter);
  writer->directory_ = directory;
  for (const auto& device : devices) {
    // A PCI domain that no machine has: a real card's file is never touched.
    const std::string path = directory + "/metrics.e000:0" + std::to_string(device->index + 1) + ":00.0";
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) {
      *error = "the metrics file " + path + " can't be made: " + std::strerror(errno) + "; name another directory";
      return nullptr;
    }
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      close(descriptor);
      *error = "another process writes the metrics file " + path + "; name another directory";
      return nullptr;
    }
    writer->files_.push_back({device.get(), path, descriptor});
    if (ftruncate(descriptor, 0) != 0) {
      *error = "the metrics file " + path + " can't be emptied: " + std::strerror(errno) + "; name another directory";
      return nullptr;
    }
  }
  const uint64_t now_ms = host_now_ns() / kMs;
  for (File& file : writer->files_) {
    file.device->start_meter(now_ms * kMs);
    write(file, now_ms);
  }
  sigset_t all, before;
  sigfillset(&all);  // the program's signal handlers are not for this thread
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer->thread_ = std::thread([self = writer.get()] { self->loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(writer->thread_.native_handle(), "spyre-metrics");
  return writer;
}

MetricsWriter::~MetricsWriter() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
  for (const File& file : files_) {
    unlink(file.path.c_str());
    close(file.descriptor);
  }
}

void MetricsWriter::loop() {
  uint64_t last_ms = host_now_ns() / kMs;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t next_ms = last_ms + kIntervalMs;
    std::this_thread::sleep_until(host_time_point(next_ms * kMs));
    last_ms = std::max(host_now_ns() / kMs, next_ms);
    for (File& file : files_) write(file, last_ms);
  }
}

void MetricsWriter::write(File& file, uint64_t now_ms) {
  // A thread that comes late shows the last interval nevertheless.
  Draw before = file.device->read_meter((now_ms - kIntervalMs) * kMs);
  const Draw last = file.device->read_meter(now_ms * kMs);
  before.add(last, 1);
  file.memory_read += before.memory_read;
  file.memory_written += before.memory_written;
  file.received += before.received;
  file.sent += before.sent;
  const uint64_t used = file.device->memory.total() - file.device->memory.free_bytes();
  file.peak_memory = std::max(file.peak_memory, used);
  const double watts = model::kIdleWatts + last.joules / (kIntervalMs * 1e-3);
  const auto kib = [](double bytes) { return static_cast<uint64_t>(std::llround(bytes)) >> 10; };
  const auto tenths = [](double value) { return static_cast<uint64_t>(std::llround(10 * value)); };
  const Metric runtime[] = {{129, used >> 20}, {130, file.peak_memory >> 20}};
  const Metric counters[] = {
      {16, tenths(watts)},
      {17, tenths(file.device->celsius())},
      {18, kib(file.memory_read)},
      {19, kib(file.memory_written)},
      {20, kib(file.received)},
      {21, kib(file.sent)},
      {22, 0},
      {23, 0},
  };
  Bytes out;
  const uint32_t sections[][2] = {{16, section_bytes(runtime)}, {32, section_bytes(counters)}};
  out.u32('!' | 'i' << 8 | 'u' << 16 | 'M' << 24);
  out.u32(48 + sections[0][1] + sections[1][1]);
  out.u32(1 | 1u << 24);  // version 1.0.0.1, a byte each
  out.u32(2);
  out.u64(now_ms);
  out.u64(0);
  for (const auto& section : sections) {
    out.u32(section[0]);
    out.u32(section[1]);
  }
  ++file.sequence;
  put_section(out, 16, file.sequence, now_ms, runtime);
  put_section(out, 32, file.sequence, now_ms, counters);
  write_all(file.descriptor, out.data(), 4) && write_all(file.descriptor, out.data(), out.size()) &&
      write_all(file.descriptor, "AiuM", 4);  // a full disk: the file stays as it is, and is seen to be stale
}

}  // namespace kineto_spyre::emulator
