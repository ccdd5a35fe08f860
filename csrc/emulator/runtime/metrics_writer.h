// The metrics file of each device, as a Spyre's runtime writes it (format "AiuM", version 1.0.0.1): for aiu-smi,
// spyremetrics and kineto_spyre.telemetry.
//
// metrics.<bus id> in a directory, rewritten every 10 ms by one thread. While it is being rewritten, its first byte is
// '!'. Times are whole milliseconds of the host's clock; the power is the mean over the last interval. The process
// holds each file open and locked as long as it writes; a file that was there before is replaced. The files go with the
// writer. Written with pwrite, not through a mapping: a file that somebody cuts short must not end the program.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kineto_spyre::emulator {

class Device;

class MetricsWriter {
 public:
  // Null, with a sentence in *error, if a file can't be made.
  static std::unique_ptr<MetricsWriter> start(const std::string& directory,
                                              const std::vector<std::unique_ptr<Device>>& devices, std::string* error);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  const std::string& directory() const { return directory_; }
  const std::string& path(int32_t device) const { return files_[static_cast<size_t>(device)].path; }

 private:
  struct File {
    Device* device;
    std::string path;
    int descriptor;
    uint32_t sequence = 0;
    double memory_read = 0, memory_written = 0, received = 0, sent = 0;  // bytes since the start
    uint64_t peak_memory = 0;
  };
  MetricsWriter() = default;
  void loop();
  static void write(File& file, uint64_t now_ms);

  std::string directory_;
  std::vector<File> files_;
  std::atomic<bool> stop_{false};  // relaxed: the thread is joined
  std::thread thread_;
};

}  // namespace kineto_spyre::emulator
