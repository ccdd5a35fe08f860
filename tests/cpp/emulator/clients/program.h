// The program that both clients watch, and what they keep of it.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "spyre_emulator/runtime.h"

namespace clients {

// What a client copies out of a record.
struct Seen {
  uint8_t kind;
  uint32_t correlation;
  uint64_t start, end;
  std::string name;  // of kernels
};

constexpr size_t kDeviceRecords = 19;                  // 12 kernels, 6 copies, 1 fill
constexpr size_t kMemoryRecords = 4;                   // 2 allocations, 2 releases
constexpr size_t kCalls = 12 / 4 + 6 + 1 + 1 + 2 + 2;  // a launch of each 4 kernels, copies, the fill, a wait, memory

inline void check(spyreError_t error) {
  INFO(spyreGetLastErrorString());
  REQUIRE(error == SPYRE_SUCCESS);
}

inline void start_machine() {
  const spyreConfig_t config{1, 64u << 20, SPYRE_TIME_MODELLED, 1, 1};
  check(spyreInit(&config));
}

// One session's work, ended by a wait for the device.
inline void run_program() {
  void* memory[2] = {};
  for (void*& one : memory) check(spyreMalloc(0, 4096, nullptr, &one));
  for (int i = 0; i < 3; ++i) {
    check(spyreMemcpy(0, nullptr, nullptr, 4096, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_ASYNC));
    spyreKernel_t kernel{};
    kernel.name = "spyre_kernel_v1_mm_abcdefghijklmnop#0";
    kernel.ns = 20'000;
    kernel.measured_ns = -1;
    kernel.count = 4;
    check(spyreLaunchKernel(0, nullptr, &kernel));
    check(spyreMemcpy(0, nullptr, nullptr, 4096, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_ASYNC));
  }
  check(spyreMemset(0, nullptr, 0, 4096, nullptr, SPYRE_ASYNC));
  check(spyreDeviceSynchronize(0));
  for (void* one : memory) check(spyreFree(0, one));
}

// Keeps what a client's plugin keeps: by kind, from the fields that public clients read.
inline void keep(const AIUpti_Activity* record, std::vector<Seen>* seen) {
  switch (record->kind) {
    case AIUPTI_ACTIVITY_KIND_CMPT: {
      const auto* compute = reinterpret_cast<const AIUpti_ActivityCompute*>(record);
      seen->push_back({record->kind, compute->correlation_id, compute->start, compute->end, compute->name});
      break;
    }
    case AIUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* copy = reinterpret_cast<const AIUpti_ActivityMemcpy*>(record);
      seen->push_back({record->kind, copy->correlation_id, copy->start, copy->end, ""});
      break;
    }
    case AIUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* fill = reinterpret_cast<const AIUpti_ActivityMemset*>(record);
      seen->push_back({record->kind, fill->correlation_id, fill->start, fill->end, ""});
      break;
    }
    case AIUPTI_ACTIVITY_KIND_MEMORY: {
      const auto* memory = reinterpret_cast<const AIUpti_ActivityMemory*>(record);
      seen->push_back({record->kind, memory->correlation_id, memory->start, memory->end, ""});
      break;
    }
    case AIUPTI_ACTIVITY_KIND_RUNTIME: {
      const auto* call = reinterpret_cast<const AIUpti_ActivityAPI*>(record);
      seen->push_back({record->kind, call->correlation_id, call->start, call->end, ""});
      break;
    }
    default:
      FAIL("a record of kind " << static_cast<int>(record->kind) << " that was not enabled");
  }
}

// What a session must have recorded.
inline void check_session(const std::vector<Seen>& seen, size_t device_records, bool with_calls) {
  size_t device = 0, calls = 0;
  for (const Seen& one : seen) {
    (one.kind == AIUPTI_ACTIVITY_KIND_RUNTIME ? calls : device) += 1;
    REQUIRE(one.start != 0);
    REQUIRE(one.start <= one.end);
    REQUIRE(one.correlation != 0);
    if (one.kind == AIUPTI_ACTIVITY_KIND_CMPT) REQUIRE(one.name == "spyre_kernel_v1_mm_abcdefghijklmnop#0");
  }
  REQUIRE(device == device_records);
  REQUIRE(calls == (with_calls ? kCalls : 0));
}

}  // namespace clients
