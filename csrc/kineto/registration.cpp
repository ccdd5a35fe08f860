#include "kineto/registration.h"

#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <utility>

#include "kineto/profiler.h"
#include "kineto/profiler_stubs.h"

namespace kineto_spyre::kineto {

using torch::profiler::impl::PrivateUse1ProfilerRegistry;

std::string Registration::register_factory(bool override) {
  {
    const std::lock_guard lock(mutex_);
    if (made_ || !token_.expired()) return "ours";
  }
  PrivateUse1ProfilerRegistry& registry = PrivateUse1ProfilerRegistry::instance();
  if (registry.hasFactory() && !override) return "other";
  auto token = std::make_shared<int>(0);
  {
    const std::lock_guard lock(mutex_);
    registered_ = true;
    token_ = token;
  }
  // PyTorch may call this before registerFactory returns, or at the first profile.
  registry.registerFactory([this, token = std::move(token)] {
    const std::lock_guard lock(mutex_);
    made_ = true;
    return std::make_unique<Profiler>();
  });
  register_profiler_stubs();
  return factory();
}

std::string Registration::factory() const {
  PrivateUse1ProfilerRegistry& registry = PrivateUse1ProfilerRegistry::instance();
  const bool any = registry.hasFactory();
  const bool taken = registry.isRegisteredWithKineto();
  const std::lock_guard lock(mutex_);
  if (made_) return "ours";
  if (!registered_ || token_.expired()) return any ? "other" : "none";
  // Kineto takes one factory, ever. If it has one and that was not ours, only the registry still holds ours.
  return taken && token_.use_count() == 1 ? "other" : "ours";
}

void Registration::reach_kineto() {
  // What PyTorch does itself at the first profile; the second call changes nothing.
  PrivateUse1ProfilerRegistry::instance().onKinetoInit();
}

bool Registration::take_foreign_factory() {
  const std::lock_guard lock(mutex_);
  if (!made_ || !token_.expired() || foreign_told_) return false;
  foreign_told_ = true;
  return true;
}

}  // namespace kineto_spyre::kineto
