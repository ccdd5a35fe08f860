// Whose factory PyTorch holds in its one place for a PrivateUse1 profiler. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

namespace kineto_spyre::kineto {

class Registration {
 public:
  // "ours", or "other" if another factory holds the place and override is false.
  std::string register_factory(bool override);
  // "ours", "other" or "none".
  std::string factory() const;
  // Kineto makes our profiler now, not at the first profile. For requests from outside (KINETO_USE_DAEMON), which reach
  // Kineto without PyTorch's profiler. Only once the backend has its name: from then on PyTorch lists PrivateUse1 among
  // the activities that it supports.
  static void reach_kineto();
  // True once: when a factory that was registered after ours is seen.
  bool take_foreign_factory();

 private:
  mutable std::mutex mutex_;
  bool registered_ = false;
  bool made_ = false;  // Kineto took our factory and has our profiler
  bool foreign_told_ = false;
  std::weak_ptr<int> token_;  // alive while PyTorch or Kineto holds our factory
};

}  // namespace kineto_spyre::kineto
