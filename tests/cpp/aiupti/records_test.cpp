// What the adapter reads from records, whatever the header's layout is: these tests are built twice, against our header
// and against the second one in tests/sdk, so they name no field but to fill a record.
#include "aiupti/records.h"

#include <cstring>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "aiupti/layout.h"

using namespace kineto_spyre::aiupti;

namespace {

// Every byte of a record is something else than zero, so that a field read in the wrong place or width shows.
template <class R>
R noisy(AIUpti_ActivityKind kind) {
  R record;
  std::memset(static_cast<void*>(&record), 0xa5, sizeof(record));
  reinterpret_cast<AIUpti_Activity*>(&record)->kind = static_cast<uint8_t>(kind);
  record.start = 1'700'000'000'000'000'001;
  record.end = 1'700'000'000'000'000'042;
  record.correlation_id = 77;
  return record;
}

#ifdef SECOND_HEADER
constexpr uint8_t kDmiNumber = 7;
#else
constexpr uint8_t kDmiNumber = 3;
#endif

// As it comes from libaiupti: the compiler doesn't know what it is.
template <class R>
AIUpti_Activity* untyped(R& record) {
  auto* any = reinterpret_cast<AIUpti_Activity*>(&record);
  asm volatile("" : "+r"(any));
  return any;
}

template <class R>
void check_common(R& record, Kind kind) {
  AIUpti_Activity* any = untyped(record);
  CHECK(kind_of(any) == kind);
  CHECK(size_of(kind) == sizeof(R));
  CHECK(aligned(any));
  CHECK(as<R>(any) == &record);
  CHECK(start(any) == 1'700'000'000'000'000'001);
  CHECK(end(any) == 1'700'000'000'000'000'042);
  CHECK(start(record) == start(any));
  CHECK(end(record) == end(any));
  CHECK(correlation_id(record) == 77);
  CHECK(correlation_id(any) == 77);
  const R before = record;
  set_times(any, 5, 9);
  CHECK(start(record) == 5);
  CHECK(end(record) == 9);
  set_times(record, start(before), end(before));
  CHECK(std::memcmp(&before, &record, sizeof(R)) == 0);  // nothing else was touched
}

}  // namespace

TEST_CASE("a compute record") {
  auto record = noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT);
  record.device_id = 3;
  record.stream_id = 12;
  record.context_id = 4;
  record.operation_kind = 2;
  record.submitted = 30;
  std::strcpy(record.name, "spyre_kernel_v1_mm_abcdefghijklmnop#1");
  check_common(record, Kind::kCompute);
  CHECK(device_id(record) == 3);
  CHECK(device_id(untyped(record)) == 3);
  CHECK(stream_id(record) == 12);
  CHECK(context_id(record) == 4);
  CHECK(operation(record) == Operation::kExecute);
  CHECK(copy_kind(record) == CopyKind::kUnknown);
  CHECK_FALSE(is_prepare(record));
  record.operation_kind = 1;
  CHECK(is_prepare(record));
  record.operation_kind = kDmiNumber;
  CHECK(operation(record) == Operation::kMoveIn);
  CHECK(copy_kind(record) == CopyKind::kHtoD);
  record.operation_kind = kDmiNumber + 1;
  CHECK(operation(record) == Operation::kMoveOut);
  CHECK(copy_kind(record) == CopyKind::kDtoH);
  record.operation_kind = 99;
  CHECK(operation(record) == Operation::kUnknown);
  CHECK(submitted(record) == 30);
  CHECK(name(record) == "spyre_kernel_v1_mm_abcdefghijklmnop#1");
}

TEST_CASE("a name without an end stops at the record's own end") {
  auto record = noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT);
  std::memset(record.name, 'x', sizeof(record.name));
  CHECK(name(record) == std::string(128, 'x'));
  record.name[0] = '\0';
  CHECK(name(record).empty());
}

TEST_CASE("a memcpy record") {
  for (const auto raw : {AIUPTI_ACTIVITY_KIND_MEMCPY, AIUPTI_ACTIVITY_KIND_MEMCPY2}) {
    auto record = noisy<AIUpti_ActivityMemcpy>(raw);
    record.device_id = 1;
    record.stream_id = 2;
    record.bytes = uint64_t{5} << 32;
    check_common(record, raw == AIUPTI_ACTIVITY_KIND_MEMCPY ? Kind::kMemcpy : Kind::kMemcpy2);
    CHECK(device_id(record) == 1);
    CHECK(stream_id(record) == 2);
    CHECK(bytes(record) == uint64_t{5} << 32);
    record.copy_kind = AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    CHECK(copy_kind(record) == CopyKind::kHtoD);
    record.copy_kind = AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    CHECK(copy_kind(record) == CopyKind::kDtoH);
    record.copy_kind = AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    CHECK(copy_kind(record) == CopyKind::kPtoP);
    record.copy_kind = 99;
    CHECK(copy_kind(record) == CopyKind::kUnknown);
  }
}

TEST_CASE("a memset record") {
  auto record = noisy<AIUpti_ActivityMemset>(AIUPTI_ACTIVITY_KIND_MEMSET);
  record.device_id = 7;
  record.stream_id = 1;
  record.bytes = 4096;
  check_common(record, Kind::kMemset);
  CHECK(device_id(record) == 7);
  CHECK(stream_id(record) == 1);
  CHECK(bytes(record) == 4096);
}

TEST_CASE("a memory record") {
  auto record = noisy<AIUpti_ActivityMemory>(AIUPTI_ACTIVITY_KIND_MEMORY);
  record.device_id = 2;
  record.address = 0xfedcba9876543210;
  record.bytes = 128;
  record.memory_operation_type = AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  check_common(record, Kind::kMemory);
  CHECK(address(record) == 0xfedcba9876543210);
  CHECK(bytes(record) == 128);
  CHECK(memory_operation(record) == MemoryOperation::kAllocation);
  record.memory_operation_type = AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  CHECK(memory_operation(record) == MemoryOperation::kRelease);
  record.memory_operation_type = 99;
  CHECK(memory_operation(record) == MemoryOperation::kUnknown);
}

TEST_CASE("a runtime or driver record") {
  for (const auto raw : {AIUPTI_ACTIVITY_KIND_RUNTIME, AIUPTI_ACTIVITY_KIND_DRIVER}) {
    auto record = noisy<AIUpti_ActivityAPI>(raw);
    record.cbid = 35;
    record.process_id = 1234;
    record.thread_id = 5678;
    record.data = uint64_t{1} << 40;
    check_common(record, raw == AIUPTI_ACTIVITY_KIND_RUNTIME ? Kind::kRuntime : Kind::kDriver);
    CHECK(cbid(record) == 35);
    CHECK(process_id(record) == 1234);
    CHECK(thread_id(record) == 5678);
    CHECK(data(record) == uint64_t{1} << 40);
    CHECK(device_id(untyped(record)) == std::nullopt);
  }
}

TEST_CASE("kinds that this project doesn't know are other, and have no size, time or device") {
  alignas(8) uint8_t bytes[256];
  std::memset(bytes, 0xff, sizeof(bytes));
  auto* record = reinterpret_cast<AIUpti_Activity*>(bytes);
  for (const int raw : {AIUPTI_ACTIVITY_KIND_EVENT, AIUPTI_ACTIVITY_KIND_METRIC, AIUPTI_ACTIVITY_KIND_ENVIRONMENT,
                        AIUPTI_ACTIVITY_KIND_SYNCHRONIZATION}) {
    bytes[0] = static_cast<uint8_t>(raw);
    CHECK(kind_of(record) == Kind::kOther);
    CHECK(raw_kind(record) == raw);
  }
  bytes[0] = 200;
  CHECK(kind_of(record) == Kind::kOther);
  CHECK(size_of(kind_of(record)) == 0);
  CHECK(start(record) == 0);
  CHECK(end(record) == 0);
  CHECK(correlation_id(record) == 0);
  CHECK(device_id(record) == std::nullopt);
  set_times(record, 1, 2);
  CHECK(bytes[8] == 0xff);
  bytes[0] = AIUPTI_ACTIVITY_KIND_INVALID;
  CHECK(kind_of(record) == Kind::kInvalid);
  CHECK_FALSE(aligned(reinterpret_cast<AIUpti_Activity*>(bytes + 4)));
  CHECK(kind_name(Kind::kCompute) == "compute");
  CHECK(kind_name(Kind::kOther) == "other");
}

namespace {

template <class R>
constexpr bool has_cycle_stamps = requires(const R& record) { record.cycles_ts1; };

template <class R>
void check_cycles(R& record) {
  if constexpr (has_cycle_stamps<R>) {
    record.cycles_ts1 = 10;
    record.cycles_ts2 = 20;
    record.cycles_ts3 = 30;
    record.cycles_ts4 = 40;
    record.cycles_ts5 = 50;
    CHECK(cycles(record) == std::array<uint64_t, 5>{10, 20, 30, 40, 50});
    record.cycles_ts1 = record.cycles_ts2 = record.cycles_ts3 = record.cycles_ts4 = record.cycles_ts5 = 0;
  }
  CHECK(cycles(record) == std::nullopt);  // not sampled, or not in this release
}

}  // namespace

TEST_CASE("cycle stamps are there if the release has them and the device took them") {
  auto compute = noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT);
  auto memcpy = noisy<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY);
  check_cycles(compute);
  check_cycles(memcpy);
}

TEST_CASE("a record of an older release ends before the cycle stamps, and the rest of it is read") {
  CHECK(kLeastSize<AIUpti_ActivityCompute> == least_size_of(Kind::kCompute));
  CHECK(least_size_of(Kind::kOther) == 0);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    CHECK(least_size_of(static_cast<Kind>(kind)) <= size_of(static_cast<Kind>(kind)));
    CHECK(least_size_of(static_cast<Kind>(kind)) % kAlignment == 0);
  }
#ifndef SECOND_HEADER
  CHECK(least_size_of(Kind::kCompute) == 192);
  CHECK(least_size_of(Kind::kMemcpy) == size_of(Kind::kMemcpy) - 40);
  CHECK(least_size_of(Kind::kRuntime) == size_of(Kind::kRuntime));
  // In memory of exactly its own size: a sanitizer would object to a byte more.
  const auto whole = noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT);
  std::unique_ptr<uint64_t[]> memory(new uint64_t[192 / 8]);
  std::memcpy(memory.get(), &whole, 192);
  const auto& record = *as<AIUpti_ActivityCompute>(reinterpret_cast<AIUpti_Activity*>(memory.get()));
  CHECK(cycles(record, 192) == std::nullopt);
  CHECK(cycles(whole, 231) == std::nullopt);
  CHECK(cycles(whole, 232).has_value());
  CHECK(end(record) == 1'700'000'000'000'000'042);
  CHECK(name(record).size() == 128);
#endif
}

TEST_CASE("cycle stamps have 32 bits and wrap") {
  CHECK(cycles_between(10, 30) == 20);
  CHECK(cycles_between(0xfffffff0, 0x10) == 32);
  CHECK(cycles_between(uint64_t{5} << 32 | 7, 9) == 2);
}

TEST_CASE("what a wait waits for, as the emulated library packs it") {
  auto record = noisy<AIUpti_ActivityAPI>(AIUPTI_ACTIVITY_KIND_RUNTIME);
  record.data = uint64_t{3} << 32 | 12;
  REQUIRE(wait_target(record).has_value());
  CHECK(wait_target(record)->device == 3);
  CHECK(wait_target(record)->stream == 12);
  record.data = UINT64_MAX;
  CHECK_FALSE(wait_target(record).has_value());
}

TEST_CASE("the layout is the header's that was found") {
#ifdef SECOND_HEADER
  CHECK_FALSE(has_own_layout());
  CHECK(sizeof(AIUpti_ActivityCompute) == 184);
  CHECK_FALSE(has_cycle_stamps<AIUpti_ActivityCompute>);
  CHECK(queued(noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT)) == std::nullopt);
  CHECK(local_memory_total(noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT)) == std::nullopt);
  CHECK(kind_from_raw(7) == Kind::kRuntime);
#else
  CHECK(has_own_layout());
  CHECK(sizeof(AIUpti_ActivityCompute) == 232);
  CHECK(has_cycle_stamps<AIUpti_ActivityCompute>);
  auto record = noisy<AIUpti_ActivityCompute>(AIUPTI_ACTIVITY_KIND_CMPT);
  record.queued = 20;
  record.local_memory_total = 4096;
  CHECK(queued(record) == 20);
  CHECK(local_memory_total(record) == 4096);
  CHECK(kind_from_raw(7) == Kind::kDriver);
#endif
}
