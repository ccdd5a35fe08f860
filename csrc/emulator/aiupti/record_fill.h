// What is in a record: from what the runtime tells (spyre_emulator/tracer.h) to libaiupti's structures.
//
// As the real library: copies have cycle stamps of 0, stamps are the low 32 bits of the stream's cycle counter and
// wrap. Times of device work are on the device's clock, queued and submitted on the host's.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <cstdint>

#include "spyre_emulator/tracer.h"

namespace kineto_spyre::emulator {

// One piece of device work: where it is in time, in true time and in cycles.
struct Piece {
  uint64_t start_ns, end_ns, cycles;
};

void fill_call(AIUpti_ActivityAPI* record, const HostCall& call, uint32_t pid, uint32_t tid);
void fill_memory(AIUpti_ActivityMemory* record, const MemoryEvent& event, uint32_t pid);

void fill_compute(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece);
void fill_memcpy(AIUpti_ActivityMemcpy* record, AIUpti_ActivityKind kind, const DeviceWork& work, const Piece& piece);
void fill_memset(AIUpti_ActivityMemset* record, const DeviceWork& work, const Piece& piece);

// Changes the record of a kernel's execution into that of what comes before it, or of one part of it.
void make_prepare(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece);
void make_part(AIUpti_ActivityCompute* record, const DeviceWork& work, const Piece& piece, uint8_t operation_kind);
// How long that part lasts.
uint64_t part_ns(const DeviceWork& work, uint8_t operation_kind);

// The fields of a call's record in another order, as another release might have them; of the same size.
void reorder_fields(AIUpti_ActivityAPI* record);

// What newer releases append to records of work: the collective that it belongs to. As libaiupti/aiupti_activity.h has
// it with LIBAIUPTI_NEWER_RELEASE.
struct CollectiveTail {
  uint32_t call;  // the correlation id
  uint32_t coll_group;
  uint32_t coll_algo;
  uint64_t coll_bytes;
};
CollectiveTail collective_of(const DeviceWork& work);

inline constexpr size_t kAttributesBytes = 256;
// The text behind a call's record in releases that have it: kAttributesBytes, NUL-terminated.
void fill_attributes(char* text, const HostCall& call);

}  // namespace kineto_spyre::emulator
