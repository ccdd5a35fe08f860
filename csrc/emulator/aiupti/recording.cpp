// Two paths: without faults a record is filled where it lies. With faults it is filled aside, made wrong, and copied.
#include "recording.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "process.h"
#include "record_fill.h"
#include "record_sizes.h"
#include "spyre_emulator/faults.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint32_t kUnknownId = 9999;
constexpr uint8_t kTornByte = 0xDB;
constexpr uint8_t kBeyondByte = 0x5A;  // what longer compute records end with
constexpr size_t kMostExtra = 1024;

Shape shape_of(const Faults& faults) {
  const auto tail = static_cast<int16_t>(faults.collectives ? sizeof(CollectiveTail) : 0);
  return {static_cast<int16_t>(faults.size + tail), tail,
          static_cast<int16_t>(faults.attributes ? kAttributesBytes : 0)};
}

template <typename Fill>
void write(size_t bytes, Shape shape, Fill&& fill) {
  Process& p = process();
  if (Writer* const writer = p.writers.mine(); writer != nullptr) [[likely]] {
    if (writer->shape != shape) [[unlikely]] {
      writer->records.close();  // a chunk has one shape
      writer->shape = shape;
    }
    if (writer->records.write(bytes, fill)) [[likely]]
      return;
  }
  // What comes when all is disabled is not dropped: nobody asked for it.
  if (p.enabled.load(std::memory_order_relaxed) != 0) p.dropped.fetch_add(1, std::memory_order_relaxed);
}

void write_copy(const void* record, size_t bytes, Shape shape) {
  write(bytes, shape, [&](void* place) { std::memcpy(place, record, bytes); });
}

// An id of this pid namespace in another one. Distinct ids stay distinct, and are plausible: ids have 22 bits.
uint32_t elsewhere(uint32_t id) {
  constexpr uint32_t kMostIds = uint32_t{1} << 22;
  return (id + 3'000'000) % kMostIds;
}

uint32_t process_id(const Faults& faults) {
  if (faults.other_process) return 1;
  return faults.other_namespace ? elsewhere(t_self.pid) : t_self.pid;
}

uint32_t thread_id(const Faults& faults) {
  if (faults.null_thread_ids) return 0;
  const bool wrong = faults.other_namespace || faults.other_process || faults.wrong_thread_ids;
  return wrong ? elsewhere(t_self.tid) : t_self.tid;
}

void write_faulty_call(HostCall call, Faults& faults) {
  alignas(8) char bytes[sizeof(AIUpti_ActivityAPI) + kAttributesBytes]{};
  auto* const record = new (bytes) AIUpti_ActivityAPI{};
  if (faults.unknown_id.hit()) call.cbid = kUnknownId;
  fill_call(record, call, process_id(faults), thread_id(faults));
  if (faults.attributes) fill_attributes(bytes + sizeof(AIUpti_ActivityAPI), call);
  if (faults.api_field_order) reorder_fields(record);
  const Shape shape = shape_of(faults);
  write_copy(bytes, size_of(AIUPTI_ACTIVITY_KIND_RUNTIME, shape), shape);
}

void on_host_call(const HostCall& call) {
  if (!process().is_enabled(AIUPTI_ACTIVITY_KIND_RUNTIME)) return;
  know_thread();
  if (Faults* faults = current_faults(); faults != nullptr) [[unlikely]] {
    write_faulty_call(call, *faults);
    return;
  }
  write(sizeof(AIUpti_ActivityAPI), {},
        [&](void* place) { fill_call(new (place) AIUpti_ActivityAPI{}, call, t_self.pid, t_self.tid); });
}

void on_memory(const MemoryEvent& event) {
  if (!process().is_enabled(AIUPTI_ACTIVITY_KIND_MEMORY)) return;
  know_thread();
  const Faults* faults = current_faults();
  const uint32_t pid = faults == nullptr ? t_self.pid : process_id(*faults);
  write(sizeof(AIUpti_ActivityMemory), faults == nullptr ? Shape{} : shape_of(*faults),
        [&](void* place) { fill_memory(new (place) AIUpti_ActivityMemory{}, event, pid); });
}

// A record of device work, with the faults that any of them may have.
void write_faulty(uint8_t* record, size_t bytes, Shape shape, Faults& faults) {
  if (faults.drop.hit()) {
    process().dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (faults.torn.hit()) std::memset(record + bytes / 2, kTornByte, bytes - bytes / 2);
  write_copy(record, bytes, shape);
  if (faults.duplicate.hit()) write_copy(record, bytes, shape);
  if (faults.unknown_kind.hit()) {
    const uint8_t unknown[kUnknownKindBytes] = {kUnknownKind};
    write_copy(unknown, sizeof(unknown), shape);
  }
}

// Behind a record of this build's size.
void append_collective(uint8_t* end, const DeviceWork& work, const Faults& faults) {
  if (!faults.collectives) return;
  const CollectiveTail tail = collective_of(work);
  std::memcpy(end, &tail, sizeof(tail));
}

template <typename Record>
void spoil_times(Record* record, Faults& faults) {
  if (faults.zero_start.hit()) record->start = 0;
  if (faults.backwards.hit()) std::swap(record->start, record->end);
}

void write_faulty_kernel(const DeviceWork& work, const Piece& piece, Shape shape, Faults& faults) {
  alignas(8) uint8_t bytes[sizeof(AIUpti_ActivityCompute) + kMostExtra];
  const size_t size = size_of(AIUPTI_ACTIVITY_KIND_CMPT, shape);
  const auto begin = [&] {
    std::memset(bytes, kBeyondByte, sizeof(bytes));
    auto* const record = new (bytes) AIUpti_ActivityCompute{};
    fill_compute(record, work, piece);
    append_collective(bytes + sizeof(AIUpti_ActivityCompute), work, faults);
    return record;
  };
  if (faults.prepare) {
    make_prepare(begin(), work, piece);
    write_copy(bytes, size, shape);
  }
  const auto write_part = [&](uint8_t operation_kind) {
    if (part_ns(work, operation_kind) == 0) return;
    make_part(begin(), work, piece, operation_kind);
    write_copy(bytes, size, shape);
  };
  if (faults.dmi_dmo) write_part(AIUPTI_ACTIVITY_KIND_DMI);
  AIUpti_ActivityCompute* const record = begin();
  if (faults.dmi_dmo) make_part(record, work, piece, AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE);
  if (faults.bad_name.hit()) std::memcpy(record->name, "bad_\xff\xfe\xc3\x28_name", 14);
  if (faults.unterminated.hit()) {
    for (size_t i = std::strlen(record->name); i < sizeof(record->name); ++i) record->name[i] = 'x';
  }
  spoil_times(record, faults);
  write_faulty(bytes, size, shape, faults);
  if (faults.dmi_dmo) write_part(AIUPTI_ACTIVITY_KIND_DMO);
}

void write_faulty_piece(const DeviceWork& work, AIUpti_ActivityKind kind, const Piece& piece, Faults& faults) {
  const Shape shape = shape_of(faults);
  switch (work.kind) {
    case WorkKind::kKernel:
      write_faulty_kernel(work, piece, shape, faults);
      break;
    case WorkKind::kCopy: {
      alignas(8) uint8_t bytes[sizeof(AIUpti_ActivityMemcpy) + sizeof(CollectiveTail)]{};
      auto* const copy = new (bytes) AIUpti_ActivityMemcpy{};
      fill_memcpy(copy, kind, work, piece);
      append_collective(bytes + sizeof(AIUpti_ActivityMemcpy), work, faults);
      spoil_times(copy, faults);
      write_faulty(bytes, size_of(static_cast<uint8_t>(kind), shape), shape, faults);
      break;
    }
    case WorkKind::kFill: {
      AIUpti_ActivityMemset fill{};
      fill_memset(&fill, work, piece);
      spoil_times(&fill, faults);
      write_faulty(reinterpret_cast<uint8_t*>(&fill), sizeof(fill), shape, faults);
      break;
    }
  }
}

void write_piece(const DeviceWork& work, AIUpti_ActivityKind kind, const Piece& piece) {
  write(size_of(static_cast<uint8_t>(kind), {}), {}, [&](void* place) {
    switch (work.kind) {
      case WorkKind::kKernel:
        fill_compute(new (place) AIUpti_ActivityCompute{}, work, piece);
        break;
      case WorkKind::kCopy:
        fill_memcpy(new (place) AIUpti_ActivityMemcpy{}, kind, work, piece);
        break;
      case WorkKind::kFill:
        fill_memset(new (place) AIUpti_ActivityMemset{}, work, piece);
        break;
    }
  });
}

AIUpti_ActivityKind kind_of(const DeviceWork& work) {
  switch (work.kind) {
    case WorkKind::kKernel:
      break;
    case WorkKind::kFill:
      return AIUPTI_ACTIVITY_KIND_MEMSET;
    case WorkKind::kCopy:
      return work.copy_kind == SPYRE_MEMCPY_PTOP ? AIUPTI_ACTIVITY_KIND_MEMCPY2 : AIUPTI_ACTIVITY_KIND_MEMCPY;
  }
  return AIUPTI_ACTIVITY_KIND_CMPT;
}

void on_device_work(const DeviceWork& work) {
  const AIUpti_ActivityKind kind = kind_of(work);
  if (!process().is_enabled(kind)) return;
  Faults* const faults = current_faults();
  for (uint64_t i = 0; i < work.count; ++i) {
    const uint64_t at = work.reversed ? work.count - 1 - i : i;
    const uint64_t start = work.start_ns + at * work.period_ns;
    const Piece piece{start, start + work.duration_ns, work.cycles + at * work.cycle_period};
    if (faults != nullptr) [[unlikely]] {
      write_faulty_piece(work, kind, piece, *faults);
    } else {
      write_piece(work, kind, piece);
    }
  }
}

}  // namespace

const spyreTracer kTracer{on_host_call, on_memory, on_device_work};

}  // namespace kineto_spyre::emulator
