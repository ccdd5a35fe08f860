// One profiling session: from configure (warm-up) to the trace.
//
//   kOff      nothing is recorded: no library, no memory, or another session is under way
//   kArmed -> kRecording (start) -> kStopped (stop) -> kMade (the trace was asked for)
//
// In: Kineto's calls, from its own threads, one at a time; op events from any thread. Out: activities, metadata, and
// diagnostics for whatever went wrong. Nothing throws into PyTorch. Owner of the capture until take_result(), of the
// result until the arena takes it, of the arena until Kineto takes the trace buffer.
#pragma once

#include <IActivityProfiler.h>
#include <libkineto.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kineto/activity.h"
#include "kineto/library_control.h"
#include "kineto/session_report.h"
#include "kineto/settings.h"

namespace kineto_spyre::kineto {

class Session final : public libkineto::IActivityProfilerSession {
 public:
  Session(const std::set<libkineto::ActivityType>& types, int64_t kineto_buffer_mb);
  ~Session() override;

  void start() override;
  void stop() override;
  // Codes of the diagnostics.
  std::vector<std::string> errors() override;
  void processTrace(libkineto::ActivityLogger& logger) override;
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start_ns,
                    int64_t end_ns) override;
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override;
  std::vector<libkineto::ResourceInfo> getResourceInfos() override;
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override;
  std::string getDeviceProperties() override;
  std::unordered_map<std::string, std::string> getMetadata() override;

  // Off: libaiupti records nothing of the session that is recording, until it is on again. The device is to be idle, or
  // work in flight may be recorded or not. Nothing happens without a session. Any thread.
  static void set_recording(bool on);

  void pushCorrelationId(uint64_t id) override;
  void popCorrelationId() override;
  void pushUserCorrelationId(uint64_t id) override;
  void popUserCorrelationId() override;

 private:
  enum class State { kOff, kArmed, kRecording, kStopped, kMade };

  // Runs f and makes a diagnostic of whatever it throws: nothing of ours goes into PyTorch.
  template <class F>
  void guarded(const char* doing, F f) noexcept;
  void arm(int64_t kineto_buffer_mb);
  bool prepare_capture(int64_t kineto_buffer_mb);
  std::vector<WantedKind> wanted_kinds() const;
  bool in_child() const;
  void over();
  void make();  // the trace but for its ranges, once, when it is first asked for
  void add_ranges(const libkineto::getLinkedActivityCallback& linked);
  void hand_over(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked);

  State state_ = State::kOff;
  bool live_ = false;  // counted as such by the plugin
  int process_;
  trace::Options options_;
  bool want_ranges_;
  Settings settings_;
  const aiupti::Library* library_ = nullptr;
  std::optional<LibraryControl> control_;  // from the moment that callbacks are registered
  SessionFacts facts_;
  capture::CaptureResult capture_result_;  // from stop until the trace is made
  trace::Diagnostics diagnostics_;
  std::string report_;
  std::unique_ptr<Arena> arena_;
  std::optional<trace::TraceMaking> making_;  // from make() until add_ranges(); refers to the arena
  int64_t reading_ns_ = 0;
  int64_t handing_over_ns_ = 0;
};

}  // namespace kineto_spyre::kineto
