// What a Kineto plugin usually hands over: one GenericTraceActivity an event, with a map of six metadata strings, and
// log(), which copies both. Beside it stop.py measures the compact form, in one process.
//
// A child profiler of its own: it makes its events from records in memory, as many as it was told, and links each to
// the op whose turn it is. extern "C", for ctypes.
#include <GenericTraceActivity.h>
#include <IActivityProfiler.h>
#include <libkineto.h>
#include <malloc.h>
#include <output_base.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "libaiupti/aiupti_activity.h"

namespace {

using libkineto::ActivityType;

int64_t g_pairs = 0;       // of a launch and its kernel, in the next session; 0: no session
int64_t g_per_op = 1;      // of them, launched by one op
int64_t g_process_ns = 0;  // processor time of the last processTrace
int64_t g_heap_bytes = 0;  // that it left allocated

int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t heap() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(int64_t pairs) : pairs_(pairs) {}

  void start() override {
    begin_ = std::chrono::system_clock::now().time_since_epoch().count();
    calls_.resize(pairs_);
    kernels_.resize(pairs_);
    for (int64_t i = 0; i < pairs_; ++i) {
      AIUpti_ActivityAPI& call = calls_[i];
      call.kind = AIUPTI_ACTIVITY_KIND_RUNTIME;
      call.cbid = 2;
      call.thread_id = 1;
      call.correlation_id = static_cast<uint32_t>(i + 1);
      call.start = static_cast<uint64_t>(begin_ + i * 4000);
      call.end = call.start + 1000;
      call.data = 1;
      AIUpti_ActivityCompute& kernel = kernels_[i];
      kernel.kind = AIUPTI_ACTIVITY_KIND_CMPT;
      kernel.stream_id = 1;
      kernel.correlation_id = call.correlation_id;
      kernel.queued = kernel.submitted = call.start;
      kernel.start = call.start + 1000;
      kernel.end = call.start + 2000;
      std::strcpy(kernel.name, "spyre_kernel_v1_mm_abcdefghijklmnop#0");
    }
  }
  void stop() override {}
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger&) override {}

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                    int64_t) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    const int64_t heap_before = heap();
    const int64_t before = processor_ns();
    for (int64_t i = 0; i < pairs_; ++i) {
      const auto op = static_cast<size_t>(i / g_per_op);
      const auto* activity = op < ops_.size() ? linked(static_cast<int32_t>(ops_[op])) : nullptr;
      add_call(logger, calls_[i], activity);
      add_kernel(logger, kernels_[i], activity);
    }
    g_process_ns = processor_ns() - before;
    g_heap_bytes = heap() - heap_before;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }
  void pushCorrelationId(uint64_t id) override { ops_.push_back(id); }

 private:
  libkineto::GenericTraceActivity& add(ActivityType type, const std::string& name, uint64_t start, uint64_t end,
                                       uint32_t id, bool flow_start, const libkineto::ITraceActivity* op) {
    buffer_->emplace_activity(buffer_->span, type, name);
    auto& activity = libkineto::CpuTraceBuffer::toRef(buffer_->activities.back());
    activity.startTime = static_cast<int64_t>(start);
    activity.endTime = static_cast<int64_t>(end);
    activity.id = static_cast<int32_t>(id);
    activity.linked = op;
    activity.flow.id = id;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = flow_start;
    return activity;
  }

  void add_call(libkineto::ActivityLogger& logger, const AIUpti_ActivityAPI& call,
                const libkineto::ITraceActivity* op) {
    auto& activity = add(ActivityType::PRIVATEUSE1_RUNTIME, "aiuLaunchControlBlocks", call.start, call.end,
                         call.correlation_id, true, op);
    activity.device = static_cast<int32_t>(call.process_id);
    activity.resource = static_cast<int32_t>(call.thread_id);
    activity.addMetadata("cbid", call.cbid);
    activity.addMetadata("correlation", call.correlation_id);
    activity.addMetadata("num_cbs", call.data);
    activity.addMetadata("process", call.process_id);
    activity.addMetadata("thread", call.thread_id);
    activity.addMetadata("External id", op != nullptr ? op->correlationId() : 0);
    activity.log(logger);
  }

  void add_kernel(libkineto::ActivityLogger& logger, const AIUpti_ActivityCompute& kernel,
                  const libkineto::ITraceActivity* op) {
    auto& activity =
        add(ActivityType::CONCURRENT_KERNEL, kernel.name, kernel.start, kernel.end, kernel.correlation_id, false, op);
    activity.device = static_cast<int32_t>(kernel.device_id);
    activity.resource = static_cast<int32_t>(kernel.stream_id);
    activity.addMetadata("device", kernel.device_id);
    activity.addMetadataQuoted("context", std::to_string(kernel.context_id));
    activity.addMetadata("stream", kernel.stream_id);
    activity.addMetadata("correlation", kernel.correlation_id);
    activity.addMetadata("queued", kernel.queued);
    activity.addMetadata("submitted", kernel.submitted);
    activity.log(logger);
  }

  int64_t pairs_;
  int64_t begin_ = 0;
  std::vector<uint64_t> ops_;
  std::vector<AIUpti_ActivityAPI> calls_;
  std::vector<AIUpti_ActivityCompute> kernels_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "generic_form";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {ActivityType::CONCURRENT_KERNEL};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>&,
                                                                 const libkineto::Config&) override {
    return g_pairs != 0 ? std::make_unique<Session>(g_pairs) : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void generic_register() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}
EXPORT void generic_set(int64_t pairs, int64_t per_op) {
  g_pairs = pairs;
  g_per_op = per_op;
}
EXPORT int64_t generic_process_ns() { return g_process_ns; }
EXPORT int64_t generic_heap_bytes() { return g_heap_bytes; }
