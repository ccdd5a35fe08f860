// What PyTorch's registry makes and Kineto asks at each profile: is there a Spyre session to run beside this one?
#pragma once

#include <IActivityProfiler.h>

#include <memory>
#include <set>
#include <string>

namespace kineto_spyre::kineto {

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override;
  const std::set<libkineto::ActivityType>& availableActivities() const override;
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<libkineto::ActivityType>& types,
                                                                 const libkineto::Config& config) override;
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t ts_ms, int64_t duration_ms,
                                                                 const std::set<libkineto::ActivityType>& types,
                                                                 const libkineto::Config& config) override;
};

}  // namespace kineto_spyre::kineto
