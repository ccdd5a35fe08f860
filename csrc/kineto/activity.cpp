#include "kineto/activity.h"

#include <output_base.h>

#include <algorithm>
#include <new>

#include "aiupti/cbid.h"
#include "trace/text.h"

namespace kineto_spyre::kineto {
namespace {

using aiupti::Kind;
using libkineto::ActivityType;
using trace::Item;
using trace::JsonObject;

constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kPagesBytes = 16 << 20;  // of address space at a time

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

Arena::Arena() : trace::ItemStore(sizeof(Activity)) {
  static_assert(sizeof(Chunk) <= kChunkBytes);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Winvalid-offsetof"  // supported by every compiler that builds PyTorch, and checked here
  static_assert(offsetof(Activity, item) == kItemOffset);
#pragma GCC diagnostic pop
}

Arena::~Arena() = default;  // activities own nothing

size_t Arena::chunk_bytes() const {
  size_t bytes = 0;
  for (const trace::Pages& pages : pages_) bytes += pages.ready();
  return bytes;
}

trace::ItemStore::Block Arena::allocate() {
  if (pages_.empty() || used_ == kPagesBytes) {
    const size_t expected = expected_ / Chunk::kCapacity * kChunkBytes;
    const size_t before = pages_.size() * kPagesBytes;
    pages_.emplace_back(kPagesBytes, kChunkBytes, expected > before ? expected - before : 0);
    used_ = 0;
  }
  std::byte* memory = pages_.back().data() + used_;
  used_ += kChunkBytes;
  pages_.back().have(used_);
  auto* chunk = new (memory) Chunk;
  chunk->arena = this;
  return {reinterpret_cast<std::byte*>(&chunk->activities[0].item), Chunk::kCapacity};
}

const Arena& Activity::arena() const { return *Arena::Chunk::of(this).arena; }
const trace::Track& Activity::track() const { return arena().trace.tracks[item.track]; }
bool Activity::host() const { return item.kind == Kind::kRuntime || item.kind == Kind::kDriver; }

int64_t Activity::deviceId() const { return track().process; }
int64_t Activity::resourceId() const { return track().tid; }
trace::Times Activity::times() const {
  const trace::Times own{static_cast<int64_t>(aiupti::start(item.record)),
                         static_cast<int64_t>(aiupti::end(item.record))};
  const ITraceActivity* op = host() ? linkedActivity() : nullptr;
  return op != nullptr ? trace::within({op->timestamp(), op->timestamp() + op->duration()}, own) : own;
}
int64_t Activity::timestamp() const { return times().begin; }
int64_t Activity::duration() const {
  const trace::Times shown = times();
  return shown.end - shown.begin;
}
int Activity::flowType() const { return item.has(Item::kFlow) ? libkineto::kLinkAsyncCpuGpu : 0; }
void Activity::log(libkineto::ActivityLogger& logger) const { logger.handleActivity(*this); }
void Range::log(libkineto::ActivityLogger& logger) const { logger.handleActivity(*this); }

ActivityType Activity::type() const {
  switch (item.kind) {
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return ActivityType::GPU_MEMCPY;
    case Kind::kMemset:
    case Kind::kMemory:
      return ActivityType::GPU_MEMSET;
    case Kind::kRuntime:
      return ActivityType::PRIVATEUSE1_RUNTIME;
    case Kind::kDriver:
      return ActivityType::PRIVATEUSE1_DRIVER;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

const std::string Activity::name() const {
  switch (item.kind) {
    case Kind::kCompute: {
      const auto& kernel = *aiupti::as<AIUpti_ActivityCompute>(item.record);
      std::string text = trace::safe_text(aiupti::name(kernel));
      if (text.empty()) text = "unnamed kernel";
      if (aiupti::is_prepare(kernel)) text += " (prepare)";
      return text;
    }
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      switch (aiupti::copy_kind(*aiupti::as<AIUpti_ActivityMemcpy>(item.record))) {
        case aiupti::CopyKind::kHtoD:
          return "Memcpy (HtoD)";
        case aiupti::CopyKind::kDtoH:
          return "Memcpy (DtoH)";
        case aiupti::CopyKind::kPtoP:
          return "Memcpy (PtoP)";
        default:
          return "Memcpy";
      }
    case Kind::kMemset:
      return "Memset (Device)";
    case Kind::kMemory:
      switch (aiupti::memory_operation(*aiupti::as<AIUpti_ActivityMemory>(item.record))) {
        case aiupti::MemoryOperation::kAllocation:
          return "Memory (Allocation)";
        case aiupti::MemoryOperation::kRelease:
          return "Memory (Release)";
        default:
          return "Memory";
      }
    default:
      return aiupti::cbid_name(aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(item.record)));
  }
}

namespace {

template <class R>
void add_device_work(JsonObject& json, const R& record, const Item& item, const trace::Track& track) {
  json.number("device", uint64_t{aiupti::device_id(record)});
  if (const auto context = aiupti::context_id(record)) json.text("context", std::to_string(*context));
  if (item.kind != Kind::kMemory) json.number("stream", track.tid);
  json.number("correlation", uint64_t{item.id});
}

template <class R>
void add_bytes(JsonObject& json, const R& record) {
  const uint64_t bytes = aiupti::bytes(record);
  json.number("bytes", bytes);
  const uint64_t ns = aiupti::end(record) - aiupti::start(record);
  if constexpr (!std::is_same_v<R, AIUpti_ActivityMemory>) {
    if (ns != 0) json.number("memory bandwidth (GB/s)", static_cast<double>(bytes) / static_cast<double>(ns));
  }
  json.number("memory operation id", aiupti::correlation_id(record));
}

template <class R>
void add_cycles(JsonObject& json, const R& record) {
  if (const auto stamps = aiupti::cycles(record)) json.numbers("cycles_ts", *stamps);
}

}  // namespace

const std::string Activity::metadataJson() const {
  JsonObject json(320);
  switch (item.kind) {
    case Kind::kCompute: {
      const auto& record = *aiupti::as<AIUpti_ActivityCompute>(item.record);
      add_device_work(json, record, item, track());
      if (const auto queued = aiupti::queued(record)) json.number("queued", *queued);
      if (const auto submitted = aiupti::submitted(record)) json.number("submitted", *submitted);
      if (const auto memory = aiupti::local_memory_total(record)) json.number("local memory total", *memory);
      add_cycles(json, record);
      if (const auto key = trace::provenance_key(aiupti::name(record)); !key.empty()) json.text("provenance_key", key);
      break;
    }
    case Kind::kMemcpy:
    case Kind::kMemcpy2: {
      const auto& record = *aiupti::as<AIUpti_ActivityMemcpy>(item.record);
      add_device_work(json, record, item, track());
      add_bytes(json, record);
      add_cycles(json, record);
      break;
    }
    case Kind::kMemset: {
      const auto& record = *aiupti::as<AIUpti_ActivityMemset>(item.record);
      add_device_work(json, record, item, track());
      add_bytes(json, record);
      break;
    }
    case Kind::kMemory: {
      const auto& record = *aiupti::as<AIUpti_ActivityMemory>(item.record);
      add_device_work(json, record, item, track());
      add_bytes(json, record);
      if (const auto address = aiupti::address(record)) json.number("address", *address);
      break;
    }
    default: {
      const auto& record = *aiupti::as<AIUpti_ActivityAPI>(item.record);
      json.number("cbid", uint64_t{aiupti::cbid(record)});
      // A call that launches nothing has an id of its own as well; acelyzer takes it for one whose work is missing.
      if (item.has(Item::kCorrelated) &&
          (item.has(Item::kFlow) || aiupti::launches_device_work(aiupti::cbid(record)))) {
        json.number("correlation", uint64_t{item.id});
      }
      if (const auto data = aiupti::data(record)) {
        const aiupti::CbidData meaning = aiupti::cbid_data(aiupti::cbid(record));
        if (meaning == aiupti::CbidData::kControlBlocks) json.number("num_cbs", *data);
        if (meaning == aiupti::CbidData::kBytes) json.number("bytes", *data);
      }
      break;
    }
  }
  if (item.has(Item::kLong)) json.text("note", "lasts longer than a second");
  if (item.has(Item::kEarly)) json.text("note", "begins before the call that launched it");
  return std::move(json).members();
}

// Three readers look at `stream`, and this is what all of them can take. acelyzer -V finds overlaps by it, so ranges that
// nest, or are of several streams, need values of their own; PyTorch makes a number of it; HTA does too, and takes all but
// -1 for device work. So it is a text that says -1, with more zeros for each level and track. `track` is for people.
const std::string Range::metadataJson() const {
  JsonObject json;
  const auto zeros = static_cast<size_t>(std::max<int64_t>(0, track_.tid - 600)) * 16 + span_.level;
  json.text("stream", '-' + std::string(zeros, '0') + '1');
  json.text("track", track_.name + ", level " + std::to_string(span_.level));
  return std::move(json).members();
}

}  // namespace kineto_spyre::kineto
