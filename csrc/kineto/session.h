// One profiling session: from configure (warm-up) to the trace.
#pragma once

#include <IActivityProfiler.h>
#include <libkineto.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kineto/activity.h"
#include "kineto/plugin.h"

namespace kineto_spyre::kineto {

class Session final : public libkineto::IActivityProfilerSession {
 public:
  Session(const std::set<libkineto::ActivityType>& types, int64_t kineto_buffer_mb);
  ~Session() override;

  void start() override;
  void stop() override;
  std::vector<std::string> errors() override;
  void processTrace(libkineto::ActivityLogger& logger) override;
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start_ns,
                    int64_t end_ns) override;
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override;
  std::vector<libkineto::ResourceInfo> getResourceInfos() override;
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override;
  std::string getDeviceProperties() override;
  std::unordered_map<std::string, std::string> getMetadata() override;

  void pushCorrelationId(uint64_t id) override;
  void popCorrelationId() override;
  void pushUserCorrelationId(uint64_t id) override;
  void popUserCorrelationId() override;

 private:
  enum class State { kOff, kArmed, kRecording, kStopped, kMade };

  // Runs f and turns whatever it throws into a warning: nothing of ours goes into PyTorch.
  template <class F>
  void guarded(const char* doing, F f) noexcept;
  void arm(int64_t kineto_buffer_mb);
  void enable_kinds();
  void disable_kinds();
  uint64_t dropped();
  bool in_child() const;
  void over();
  void make();  // the trace, once, when it is first asked for
  std::string report() const;

  State state_ = State::kOff;
  bool live_ = false;  // counted as such by the plugin
  int process_;
  trace::Options options_;
  bool want_ranges_;
  Environment environment_;
  const aiupti::Library* library_ = nullptr;
  std::vector<AIUpti_ActivityKind> enabled_;
  bool dropped_resets_ = false;
  uint64_t dropped_before_ = 0;
  uint64_t dropped_ = 0;
  capture::CaptureResult capture_result_;  // from stop until the trace is made
  capture::Drops drops_;
  std::vector<std::string> warnings_;  // before the trace's own
  std::string report_;
  std::unique_ptr<Arena> arena_;
  int64_t reading_ns_ = 0;
  int64_t handing_over_ns_ = 0;
};

}  // namespace kineto_spyre::kineto
