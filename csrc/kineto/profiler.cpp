#include "kineto/profiler.h"

#include <Config.h>

#include "kineto/plugin.h"
#include "kineto/session.h"

namespace kineto_spyre::kineto {

using libkineto::ActivityType;

const std::string& Profiler::name() const {
  static const std::string name = "kineto_spyre";
  return name;
}

const std::set<ActivityType>& Profiler::availableActivities() const {
  static const std::set<ActivityType> types = {ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,
                                               ActivityType::GPU_MEMSET,          ActivityType::GPU_USER_ANNOTATION,
                                               ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::PRIVATEUSE1_DRIVER};
  return types;
}

std::unique_ptr<libkineto::IActivityProfilerSession> Profiler::configure(const std::set<ActivityType>& types,
                                                                         const libkineto::Config& config) {
  // Asked for every profile. One of the CPU alone wants runtime and driver calls "of PrivateUse1" as well, beside its
  // ops: so the device's own types tell, or calls without ops. With ops, a profile of the CPU alone and one that wants
  // the device's calls beside it ask for the same types, and only Python can tell them apart. Without a runtime that
  // was chosen nothing is recorded.
  const bool device = types.contains(ActivityType::CONCURRENT_KERNEL) || types.contains(ActivityType::GPU_MEMCPY) ||
                      types.contains(ActivityType::GPU_MEMSET) || types.contains(ActivityType::GPU_USER_ANNOTATION);
  const bool calls =
      types.contains(ActivityType::PRIVATEUSE1_RUNTIME) || types.contains(ActivityType::PRIVATEUSE1_DRIVER);
  try {
    Plugin& plugin = Plugin::get();
    if ((!device && !calls) || plugin.library.runtime().empty()) return nullptr;
    if (!device && types.contains(ActivityType::CPU_OP) && !plugin.settings.read().device_asked) return nullptr;
    constexpr int64_t kKinetoDefaultMb = 128;
    const int64_t mb = config.activitiesMaxGpuBufferSize() / (int64_t{1024} * 1024);
    return std::make_unique<Session>(types, mb == kKinetoDefaultMb ? 0 : mb);
  } catch (...) {  // no memory for a session: the profile goes on without
    return nullptr;
  }
}

std::unique_ptr<libkineto::IActivityProfilerSession> Profiler::configure(int64_t, int64_t,
                                                                         const std::set<ActivityType>& types,
                                                                         const libkineto::Config& config) {
  return configure(types, config);
}

}  // namespace kineto_spyre::kineto
