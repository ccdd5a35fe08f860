// A machine for a test, and a client of the emulated libaiupti that keeps every record in order of delivery.
#pragma once

#include <libaiupti/aiupti_activity.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include "spyre_emulator/clock.h"
#include "spyre_emulator/cost_model.h"
#include "spyre_emulator/runtime.h"

namespace testing {

using kineto_spyre::emulator::host_now_ns;
namespace model = kineto_spyre::emulator::model;

// The machine of the process is made anew if a test asks for another one; nothing may be left of the test before.
inline void machine(int devices = 1, spyreTimeMode_t time = SPYRE_TIME_MODELLED, uint64_t memory = 64u << 20,
                    int64_t seed = 1) {
  const spyreConfig_t config{devices, memory, time, seed >= 0, seed < 0 ? 0 : static_cast<uint64_t>(seed)};
  const spyreError_t error = spyreInit(&config);
  INFO(spyreGetLastErrorString());
  REQUIRE(error == SPYRE_SUCCESS);
}

// Callback ids, as libaiupti numbers them.
enum Cbid : uint32_t {
  kLaunch = 2,
  kPtoP = 4,
  kMalloc = 7,
  kFree = 8,
  kWait = 17,
  kDtoH = 34,
  kHtoD = 35,
  kWaitForQueueCapacity = 80
};

inline std::string why(spyreError_t error) { return error == SPYRE_SUCCESS ? "no error" : spyreGetLastErrorString(); }

#define OK(call)                                          \
  do {                                                    \
    const spyreError_t error_of_call = (call);            \
    INFO(#call << ": " << ::testing::why(error_of_call)); \
    REQUIRE(error_of_call == SPYRE_SUCCESS);              \
  } while (false)

inline spyreKernel_t kernel(const char* name, int64_t ns, int32_t count = 1) {
  spyreKernel_t kernel{};
  kernel.name = name;
  kernel.ns = ns;
  kernel.measured_ns = -1;
  kernel.count = count;
  return kernel;
}

inline void launch(const char* name, int64_t ns, spyreStream_t stream = nullptr, int32_t device = 0,
                   int32_t count = 1) {
  const spyreKernel_t k = kernel(name, ns, count);
  OK(spyreLaunchKernel(device, stream, &k));
}

inline spyreStream_t stream(uint32_t id, int32_t device = 0) {
  spyreStream_t found = nullptr;
  OK(spyreStreamGet(device, id, &found));
  return found;
}

// Work that notes its number and its thread, after it has slept for so many microseconds.
struct Order {
  std::mutex mutex;
  std::vector<int> seen;
  std::vector<std::thread::id> threads;
};
struct Step {
  Order* order;
  int number;
  useconds_t sleep = 0;
};
inline void run_step(void* argument) {
  const auto* step = static_cast<Step*>(argument);
  if (step->sleep != 0) usleep(step->sleep);
  std::lock_guard lock(step->order->mutex);
  step->order->seen.push_back(step->number);
  step->order->threads.push_back(std::this_thread::get_id());
}
inline void launch_step(Step* step, spyreStream_t on = nullptr, int64_t ns = 1000, int32_t device = 0) {
  spyreKernel_t k = kernel("step", ns);
  k.work = run_step;
  k.work_arg = step;
  OK(spyreLaunchKernel(device, on, &k));
}

// Faults for the length of a block.
class Faults {
 public:
  explicit Faults(const std::string& specification) { OK(spyreSetFaults(specification.c_str())); }
  ~Faults() { spyreSetFaults(nullptr); }
};

struct Completion {
  uint8_t* buffer;
  size_t size, valid;
  pid_t thread;
};

// Everything that libaiupti delivers. One at a time, as callbacks carry no context.
class Client {
 public:
  explicit Client(size_t buffer_bytes = 64 << 10, size_t max_records = 0, size_t buffers = SIZE_MAX)
      : buffer_bytes_(buffer_bytes), max_records_(max_records), buffers_(buffers) {
    current_ = this;
    REQUIRE(aiuptiActivityRegisterCallbacks(request, complete) == AIUPTI_SUCCESS);
    enable();
  }
  ~Client() {
    if (on_) disable();
    aiuptiFlushAllActivities();
    size_t dropped;
    aiuptiActivityGetNumDroppedRecords(&dropped);
    std::lock_guard lock(mutex_);
    current_ = nullptr;
    for (uint8_t* buffer : lent_) std::free(buffer);
  }
  Client(const Client&) = delete;

  void enable() {
    for (const AIUpti_ActivityKind kind : kKinds) REQUIRE(aiuptiActivityEnable(kind) == AIUPTI_SUCCESS);
    on_ = true;
  }
  void disable() {
    for (const AIUpti_ActivityKind kind : kKinds) aiuptiActivityDisable(kind);
    on_ = false;
  }

  // Waits for the devices, flushes, and reads every buffer that came back.
  void collect(bool synchronize = true) {
    int32_t devices = 0;
    spyreGetDeviceCount(&devices);
    for (int32_t device = 0; synchronize && device < devices; ++device) OK(spyreDeviceSynchronize(device));
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    read();
  }

  void read() {
    std::lock_guard lock(mutex_);
    for (; buffers_read_ < completions_.size(); ++buffers_read_) {
      const Completion& done = completions_[buffers_read_];
      while (true) {
        AIUpti_Activity* record = nullptr;
        const AIUpti_ResultTypes result = aiuptiActivityGetNextRecord(done.buffer, done.valid, &record);
        if (result == end_code_) break;
        if (result != AIUPTI_SUCCESS) {
          read_errors_.push_back(result);
          continue;
        }
        if (record == nullptr) {
          ++null_records_;
          continue;
        }
        records_.push_back(record);
      }
    }
  }

  template <typename Record>
  std::vector<Record> of(AIUpti_ActivityKind kind) const {
    std::vector<Record> found;
    for (const AIUpti_Activity* record : records_) {
      if (record->kind == kind) {
        Record copy;
        std::memcpy(static_cast<void*>(&copy), record, sizeof(copy));
        found.push_back(copy);
      }
    }
    return found;
  }
  std::vector<AIUpti_ActivityCompute> kernels() const { return of<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT); }
  std::vector<AIUpti_ActivityAPI> calls() const { return of<AIUpti_ActivityAPI>(AIUPTI_ACTIVITY_KIND_RUNTIME); }
  std::vector<AIUpti_ActivityAPI> calls(uint32_t cbid) const {
    std::vector<AIUpti_ActivityAPI> found;
    for (const auto& call : calls()) {
      if (call.cbid == cbid) found.push_back(call);
    }
    return found;
  }

  // With what result an iteration ends.
  void expect_end(int code) { end_code_ = static_cast<AIUpti_ResultTypes>(code); }

  // In the order of the requests.
  std::vector<uint8_t*> lent() {
    std::lock_guard lock(mutex_);
    return lent_;
  }
  // Buffers that were lent and did not come back.
  size_t out() {
    std::lock_guard lock(mutex_);
    return lent_.size() - completions_.size();
  }

  const std::vector<AIUpti_Activity*>& records() const { return records_; }
  std::vector<Completion> completions() {
    std::lock_guard lock(mutex_);
    return completions_;
  }
  size_t null_records() const { return null_records_; }
  const std::vector<AIUpti_ResultTypes>& read_errors() const { return read_errors_; }
  size_t dropped() {
    size_t count = 0;
    REQUIRE(aiuptiActivityGetNumDroppedRecords(&count) == AIUPTI_SUCCESS);
    return count;
  }

  static constexpr AIUpti_ActivityKind kKinds[] = {AIUPTI_ACTIVITY_KIND_CMPT,    AIUPTI_ACTIVITY_KIND_MEMSET,
                                                   AIUPTI_ACTIVITY_KIND_MEMORY,  AIUPTI_ACTIVITY_KIND_MEMCPY,
                                                   AIUPTI_ACTIVITY_KIND_MEMCPY2, AIUPTI_ACTIVITY_KIND_RUNTIME,
                                                   AIUPTI_ACTIVITY_KIND_DRIVER};

 private:
  static void request(uint8_t** buffer, size_t* size, size_t* max_records) {
    Client* client = current_;
    *buffer = nullptr;
    *size = 0;
    *max_records = 0;
    if (client == nullptr) return;
    std::lock_guard lock(client->mutex_);
    if (client->lent_.size() >= client->buffers_) return;
    *size = client->buffer_bytes_;
    *max_records = client->max_records_;
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, (client->buffer_bytes_ + 63) / 64 * 64));
    std::memset(*buffer, 0xEE, *size);
    client->lent_.push_back(*buffer);
  }
  static void complete(uint8_t* buffer, size_t size, size_t valid) {
    Client* client = current_;
    if (client == nullptr) return;
    std::lock_guard lock(client->mutex_);
    client->completions_.push_back({buffer, size, valid, gettid()});
  }

  inline static std::atomic<Client*> current_{nullptr};
  const size_t buffer_bytes_, max_records_, buffers_;
  bool on_ = false;
  std::mutex mutex_;
  std::vector<uint8_t*> lent_;
  std::vector<Completion> completions_;
  size_t buffers_read_ = 0;
  std::vector<AIUpti_Activity*> records_;
  std::vector<AIUpti_ResultTypes> read_errors_;
  size_t null_records_ = 0;
  AIUpti_ResultTypes end_code_ = AIUPTI_ERROR_MAX_LIMIT_REACHED;
};

template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    usleep(1000);
  }
  return false;
}

}  // namespace testing
