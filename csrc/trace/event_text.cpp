#include "trace/event_text.h"

#include "aiupti/cbid.h"
#include "aiupti/collective.h"
#include "trace/text.h"

namespace kineto_spyre::trace {

using aiupti::Kind;

namespace {

std::string copy_name(aiupti::CopyKind kind) {
  switch (kind) {
    case aiupti::CopyKind::kHtoD:
      return "Memcpy (HtoD)";
    case aiupti::CopyKind::kDtoH:
      return "Memcpy (DtoH)";
    case aiupti::CopyKind::kPtoP:
      return "Memcpy (PtoP)";
    default:
      return "Memcpy";
  }
}

std::string memory_name(aiupti::MemoryOperation operation) {
  switch (operation) {
    case aiupti::MemoryOperation::kAllocation:
      return "Memory (Allocation)";
    case aiupti::MemoryOperation::kRelease:
      return "Memory (Release)";
    default:
      return "Memory";
  }
}

std::string compute_name(const AIUpti_ActivityCompute& record, Category category) {
  if (category == Category::kMemcpy) return copy_name(aiupti::copy_kind(record));
  std::string text = safe_text(aiupti::name(record));
  if (text.empty()) text = "unnamed kernel";
  if (category == Category::kPrepare) text += " (prepare)";
  return text;
}

}  // namespace

std::string name_of(const Event& event) {
  switch (aiupti::kind_of(event.record)) {
    case Kind::kCompute:
      return compute_name(*aiupti::as<AIUpti_ActivityCompute>(event.record), event.category);
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return copy_name(aiupti::copy_kind(*aiupti::as<AIUpti_ActivityMemcpy>(event.record)));
    case Kind::kMemset:
      return "Memset (Device)";
    case Kind::kMemory:
      return memory_name(aiupti::memory_operation(*aiupti::as<AIUpti_ActivityMemory>(event.record)));
    default:
      return aiupti::cbid_name(aiupti::cbid(*aiupti::as<AIUpti_ActivityAPI>(event.record)));
  }
}

namespace {

// An event's metadata: what all device work has, then what its record tells, by the record's type.

template <class R>
void add_device_work(JsonObject& json, const R& record, const Event& event, const Track& track) {
  json.number("device", uint64_t{aiupti::device_id(record)});
  if (const auto context = aiupti::context_id(record)) json.text("context", std::to_string(*context));
  if (event.category != Category::kMemory) json.number("stream", track.tid);
  json.number("correlation", uint64_t{event.id});
}

template <class R>
void add_bytes(JsonObject& json, const R& record) {
  const uint64_t bytes = aiupti::bytes(record);
  json.number("bytes", bytes);
  const uint64_t ns = aiupti::end(record) - aiupti::start(record);
  if (ns != 0) json.number("memory bandwidth (GB/s)", static_cast<double>(bytes) / static_cast<double>(ns));
}

template <class R>
void add_cycles(JsonObject& json, const R& record, const Event& event) {
  const size_t size = event.has(Event::kShort) ? aiupti::kLeastSize<R> : sizeof(R);
  if (const auto stamps = aiupti::cycles(record, size)) json.numbers("cycles_ts", *stamps);
}

// As the records' own fields are called.
template <class R>
void add_collective(JsonObject& json, const R& record, const Event& event) {
  size_t size = event.has(Event::kShort) ? aiupti::kLeastSize<R> : sizeof(R);
  if (event.has(Event::kTail)) size += sizeof(aiupti::CollectiveTail);
  const auto found = aiupti::collective(record, size);
  if (!found) return;
  json.number("coll_group", uint64_t{found->group});
  json.number("coll_algo", uint64_t{found->algorithm});
  json.number("coll_bytes", found->bytes);
}

void add_record(JsonObject& json, const AIUpti_ActivityCompute& record, const Event& event) {
  if (const auto queued = aiupti::queued(record)) json.number("queued", *queued);
  if (const auto submitted = aiupti::submitted(record)) json.number("submitted", *submitted);
  if (const auto memory = aiupti::local_memory_total(record)) json.number("local memory total", *memory);
  add_cycles(json, record, event);
  add_collective(json, record, event);
  // A copy that the runtime records as compute work keeps what it was called.
  if (event.category == Category::kMemcpy) json.text("name", aiupti::name(record));
  if (const auto key = provenance_key(aiupti::name(record)); !key.empty()) json.text("provenance_key", key);
}

// "memory operation id" is the kind of the operation, as torch-spyre's own plugin writes it.
void add_record(JsonObject& json, const AIUpti_ActivityMemcpy& record, const Event& event) {
  add_bytes(json, record);
  json.number("memory operation id", static_cast<uint64_t>(record.copy_kind));
  add_cycles(json, record, event);
  add_collective(json, record, event);
}

void add_record(JsonObject& json, const AIUpti_ActivityMemset& record, const Event&) { add_bytes(json, record); }

void add_record(JsonObject& json, const AIUpti_ActivityMemory& record, const Event&) {
  json.number("bytes", aiupti::bytes(record));
  json.number("memory operation id", static_cast<uint64_t>(record.memory_operation_type));
  if (const auto address = aiupti::address(record)) json.number("address", *address);
}

void add_call(JsonObject& json, const AIUpti_ActivityAPI& record, const Event& event) {
  const uint32_t cbid = aiupti::cbid(record);
  json.number("cbid", uint64_t{cbid});
  // A call that launches nothing has an id of its own as well; acelyzer takes it for one whose work is missing.
  if (event.has(Event::kCorrelated) && (event.has(Event::kFlow) || aiupti::launches_device_work(cbid))) {
    json.number("correlation", uint64_t{event.id});
  }
  if (const auto data = aiupti::data(record)) {
    const aiupti::CbidData meaning = aiupti::cbid_data(cbid);
    if (meaning == aiupti::CbidData::kControlBlocks) json.number("num_cbs", *data);
    if (meaning == aiupti::CbidData::kBytes) json.number("bytes", *data);
  }
}

}  // namespace

std::string metadata_of(const Event& event, const Track& track) {
  JsonObject json(320);
  if (event.is_call()) {
    add_call(json, *aiupti::as<AIUpti_ActivityAPI>(event.record), event);
  } else {
    with_device_record(event, [&](const auto& record) {
      add_device_work(json, record, event, track);
      add_record(json, record, event);
    });
  }
  if (event.has(Event::kLong)) json.text("note", "lasts longer than a second");
  if (event.has(Event::kEarly)) json.text("note", "begins before the call that launched it");
  return std::move(json).members();
}

}  // namespace kineto_spyre::trace
