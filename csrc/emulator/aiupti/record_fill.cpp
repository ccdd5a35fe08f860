#include "record_fill.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace kineto_spyre::emulator {
namespace {

constexpr uint32_t kContext = 1;

uint64_t in_cycles(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) * (model::kCycleStampHz / 1e9));
}

uint64_t stamp(uint64_t cycles) { return static_cast<uint32_t>(cycles); }  // 32 bits of it

uint64_t submitted_ns(const DeviceWork& work, const Piece& piece) {
  return std::max(work.queued_ns, piece.start_ns - model::kDispatchNs);
}

template <typename Record>
void set_common(Record* record, AIUpti_ActivityKind kind, const DeviceWork& work, const Piece& piece) {
  record->kind = static_cast<uint8_t>(kind);
  record->device_id = work.device;
  record->stream_id = work.stream;
  record->correlation_id = work.correlation;
  record->start = work.clock.at(piece.start_ns);
  record->end = work.clock.at(piece.end_ns);
}

uint8_t copy_kind_of(spyreMemcpyKind_t kind) {
  switch (kind) {
    case SPYRE_MEMCPY_HTOD:
      return AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case SPYRE_MEMCPY_DTOH:
      return AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case SPYRE_MEMCPY_PTOP:
      break;
  }
  return AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
}

// Another order of the fields of AIUpti_ActivityAPI.
struct ReorderedCall {
  uint8_t kind;
  uint32_t correlation_id;
  uint32_t thread_id;
  uint32_t process_id;
  uint32_t cbid;
  uint64_t data;
  uint64_t start;
  uint64_t end;
};
static_assert(sizeof(ReorderedCall) == sizeof(AIUpti_ActivityAPI));

}  // namespace

void fill_call(AIUpti_ActivityAPI* record, const HostCall& call, uint32_t pid, uint32_t tid) {
  record->kind = AIUPTI_ACTIVITY_KIND_RUNTIME;
  record->cbid = call.cbid;
  record->process_id = pid;
  record->thread_id = tid;
  record->correlation_id = call.correlation;
  record->start = call.begin_ns;
  record->end = call.end_ns;
  record->data = call.data;
}

void fill_memory(AIUpti_ActivityMemory* record, const MemoryEvent& event, uint32_t pid) {
  record->kind = AIUPTI_ACTIVITY_KIND_MEMORY;
  record->memory_operation_type =
      event.release ? AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE : AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  record->device_id = event.device;
  record->process_id = pid;
  record->stream_id = event.stream;
  record->correlation_id = event.correlation;
  record->address = event.address;
  record->bytes = event.bytes;
  record->start = event.clock.at(event.begin_ns);
  record->end = event.clock.at(event.end_ns);
}

void fill_compute(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece) {
  set_common(record, AIUPTI_ACTIVITY_KIND_CMPT, work, piece);
  record->context_id = kContext;
  record->operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE;
  record->queued = work.queued_ns;  // both are the host's doing: its clock
  record->submitted = submitted_ns(work, piece);
  record->local_memory_total = work.scratchpad_bytes;
  std::memcpy(record->name, work.name, std::strlen(work.name) + 1);  // at most 127 characters
  const model::Phases& p = work.phases;
  record->cycles_ts1 = stamp(piece.cycles);
  record->cycles_ts2 = stamp(piece.cycles + in_cycles(p.in));
  record->cycles_ts3 = stamp(piece.cycles + in_cycles(p.in + p.prepare));
  record->cycles_ts4 = stamp(piece.cycles + in_cycles(p.in + p.prepare + p.execute));
  record->cycles_ts5 = stamp(piece.cycles + in_cycles(p.total()));
}

void fill_memcpy(AIUpti_ActivityMemcpy* record, AIUpti_ActivityKind kind, const DeviceWork& work, const Piece& piece) {
  set_common(record, kind, work, piece);
  record->context_id = kContext;
  record->copy_kind = copy_kind_of(work.copy_kind);
  record->bytes = work.bytes;
}

void fill_memset(AIUpti_ActivityMemset* record, const DeviceWork& work, const Piece& piece) {
  set_common(record, AIUPTI_ACTIVITY_KIND_MEMSET, work, piece);
  record->bytes = work.bytes;
}

void make_prepare(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece) {
  record->operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE;
  record->start = work.clock.at(submitted_ns(work, piece));
  record->end = work.clock.at(piece.start_ns);
}

uint64_t part_ns(const DeviceWork& work, uint8_t operation_kind) {
  const model::Phases& p = work.phases;
  if (operation_kind == AIUPTI_ACTIVITY_KIND_DMI) return p.in;
  if (operation_kind == AIUPTI_ACTIVITY_KIND_DMO) return p.out;
  return p.prepare + p.execute;
}

void make_part(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece, uint8_t operation_kind) {
  record->operation_kind = operation_kind;
  uint64_t begin = piece.start_ns;
  if (operation_kind != AIUPTI_ACTIVITY_KIND_DMI) begin += part_ns(work, AIUPTI_ACTIVITY_KIND_DMI);
  if (operation_kind == AIUPTI_ACTIVITY_KIND_DMO) begin += part_ns(work, AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE);
  record->start = work.clock.at(begin);
  record->end = work.clock.at(begin + part_ns(work, operation_kind));
}

void reorder_fields(AIUpti_ActivityAPI* record) {
  const ReorderedCall other{record->kind, record->correlation_id, record->thread_id, record->process_id,
                            record->cbid, record->data,           record->start,     record->end};
  std::memcpy(static_cast<void*>(record), &other, sizeof(other));
}

CollectiveTail collective_of(const DeviceWork& work) {
  return {work.correlation, work.collective.group, work.collective.algorithm, work.collective.bytes};
}

void fill_attributes(char* text, const HostCall& call) {
  std::memset(text, 0, kAttributesBytes);
  std::snprintf(text, kAttributesBytes, "call %u", call.correlation);
}

}  // namespace kineto_spyre::emulator
