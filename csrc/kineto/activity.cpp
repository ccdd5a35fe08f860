#include "kineto/activity.h"

#include <output_base.h>

#include <algorithm>
#include <new>
#include <utility>

#include "trace/event_text.h"
#include "trace/text.h"

namespace kineto_spyre::kineto {
namespace {

using libkineto::ActivityType;
using trace::Category;
using trace::Event;
using trace::JsonObject;

constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kRegionBytes = 16 << 20;  // of address space at a time

}  // namespace

struct Arena::Chunk {
  static constexpr size_t kHeader = 32;
  static constexpr size_t kCapacity = (kChunkBytes - kHeader) / sizeof(Activity);

  Arena* arena;
  alignas(kHeader) Activity activities[kCapacity];

  static const Chunk& of(const Activity* activity) {
    return *reinterpret_cast<const Chunk*>(reinterpret_cast<uintptr_t>(activity) & ~(kChunkBytes - 1));
  }
};

Arena::Arena() : trace::EventStore(sizeof(Activity)) {
  static_assert(sizeof(Chunk) <= kChunkBytes);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Winvalid-offsetof"  // supported by every compiler that builds PyTorch, and checked here
  static_assert(offsetof(Activity, event) == kEventOffset);
#pragma GCC diagnostic pop
}

Arena::~Arena() = default;  // activities own nothing

size_t Arena::chunk_bytes() const {
  size_t bytes = 0;
  for (const capture::PrefaultedRegion& region : regions_) bytes += region.ready();
  return bytes;
}

trace::EventStore::Block Arena::allocate() {
  if (regions_.empty() || used_ == kRegionBytes) {
    const size_t expected = expected_ / Chunk::kCapacity * kChunkBytes;
    const size_t before = regions_.size() * kRegionBytes;
    capture::PrefaultedRegion::Options options;
    options.alignment = kChunkBytes;
    options.sure = expected > before ? expected - before : 0;
    capture::PrefaultedRegion region;
    if (!region.map(kRegionBytes, options)) throw std::bad_alloc();
    regions_.push_back(std::move(region));
    used_ = 0;
  }
  uint8_t* memory = regions_.back().data() + used_;
  used_ += kChunkBytes;
  regions_.back().have(used_);
  auto* chunk = new (memory) Chunk;
  chunk->arena = this;
  return {reinterpret_cast<std::byte*>(&chunk->activities[0].event), Chunk::kCapacity};
}

const Arena& Activity::arena() const { return *Arena::Chunk::of(this).arena; }
const trace::Track& Activity::track() const { return arena().trace.tracks[event.track]; }
bool Activity::host() const { return event.is_call(); }

int64_t Activity::deviceId() const { return track().process; }
int64_t Activity::resourceId() const { return track().tid; }
trace::Times Activity::times() const {
  const trace::Times own{static_cast<int64_t>(aiupti::start(event.record)),
                         static_cast<int64_t>(aiupti::end(event.record))};
  const ITraceActivity* op = host() ? linkedActivity() : nullptr;
  return op != nullptr ? trace::within({op->timestamp(), op->timestamp() + op->duration()}, own) : own;
}
int64_t Activity::timestamp() const { return times().begin; }
int64_t Activity::duration() const {
  const trace::Times shown = times();
  return shown.end - shown.begin;
}
int Activity::flowType() const { return event.has(Event::kFlow) ? libkineto::kLinkAsyncCpuGpu : 0; }
void Activity::log(libkineto::ActivityLogger& logger) const { logger.handleActivity(*this); }
void Range::log(libkineto::ActivityLogger& logger) const { logger.handleActivity(*this); }

ActivityType Activity::type() const {
  switch (event.category) {
    case Category::kMemcpy:
      return ActivityType::GPU_MEMCPY;
    case Category::kMemset:
      return ActivityType::GPU_MEMSET;
    case Category::kRuntime:
      return ActivityType::PRIVATEUSE1_RUNTIME;
    case Category::kDriver:
    case Category::kMemory:  // as torch-spyre's own plugin shows them, and its users know them
      return ActivityType::PRIVATEUSE1_DRIVER;
    case Category::kKernel:
    case Category::kPrepare:
      break;
  }
  return ActivityType::CONCURRENT_KERNEL;
}

const std::string Activity::name() const { return trace::name_of(event); }
const std::string Activity::metadataJson() const { return trace::metadata_of(event, track()); }

// Three readers look at `stream`, and this is what all of them can take. acelyzer -V finds overlaps by it, so ranges
// that nest, or are of several streams, need values of their own; PyTorch makes a number of it; HTA does too, and takes
// all but -1 for device work. So it is a text that says -1, with more zeros for each level and track. `track` is for
// people.
const std::string Range::metadataJson() const {
  JsonObject json;
  const auto zeros = static_cast<size_t>(std::max<int64_t>(0, track_.tid - 600)) * 16 + range_.level;
  json.text("stream", '-' + std::string(zeros, '0') + '1');
  json.text("track", track_.name + ", level " + std::to_string(range_.level));
  return std::move(json).members();
}

}  // namespace kineto_spyre::kineto
