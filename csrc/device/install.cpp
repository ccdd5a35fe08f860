#include <c10/util/Exception.h>

#include <mutex>

#include "device/allocator.h"
#include "device/autocast.h"
#include "device/autograd_formulas.h"
#include "device/collectives.h"
#include "device/composite_ops.h"
#include "device/cpu_fallback.h"
#include "device/device.h"
#include "device/factory_ops.h"
#include "device/hooks.h"
#include "device/launch.h"
#include "device/nested_ops.h"
#include "device/runtime.h"

namespace kineto_spyre::device {
namespace {
std::mutex mutex;
bool done = false;
}  // namespace

bool installed() {
  const std::lock_guard lock(mutex);
  return done;
}

void install(bool measure) {
  const std::lock_guard lock(mutex);
  TORCH_CHECK(
      spyreIsInitialized(),
      "The emulated Spyre was not started. Call kineto_spyre.emulator.enable() before you use spyre in PyTorch.");
  set_measuring(measure);
  if (done) return;
  install_guard();
  install_allocators();
  install_hooks();
  register_factory_ops();
  register_nested_ops();
  register_cpu_fallback();
  register_composite_ops();
  register_autograd_formulas();
  register_autocast();
  register_collectives();
  done = true;
}

}  // namespace kineto_spyre::device
