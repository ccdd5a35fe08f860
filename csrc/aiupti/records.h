// The one place that knows how libaiupti lays out its records.
//
// <libaiupti/aiupti_activity.h> is the SDK's if LIBAIUPTI_INSTALL_DIR named one when this was built, else ours.
// Releases differ: fields moved, the cycle stamps came later, thread_id is not everywhere. So the rest of the project
// names no field of a record: it asks here, by what it wants to know, and gets it in one width and one meaning whatever
// header was found. What a release lacks is nullopt, decided when this is compiled.
//
//   switch (kind_of(record)) {
//     case Kind::kCompute: use(name(*as<AIUpti_ActivityCompute>(record))); ...
//
// Times are nanoseconds since the Unix epoch, of the clock of whoever wrote the record. They may be written too: the
// device's clock is corrected in place, in the buffer that libaiupti gave back.
//
// Nothing here checks what it reads. A record must be aligned() and lie whole within its buffer (size_of()); csrc/trace
// sees to that before it reads one.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

namespace kineto_spyre::aiupti {

// What this project understands of a record. A release may write further kinds: they are kOther.
enum class Kind : uint8_t { kInvalid, kCompute, kMemset, kMemory, kMemcpy, kMemcpy2, kRuntime, kDriver, kOther };
inline constexpr size_t kKinds = 9;

// The number in the record, for kinds that are kOther.
inline uint8_t raw_kind(const AIUpti_Activity* record) { return static_cast<uint8_t>(record->kind); }

constexpr Kind kind_from_raw(uint8_t raw) {
  switch (raw) {
    case AIUPTI_ACTIVITY_KIND_INVALID:
      return Kind::kInvalid;
    case AIUPTI_ACTIVITY_KIND_CMPT:
      return Kind::kCompute;
    case AIUPTI_ACTIVITY_KIND_MEMSET:
      return Kind::kMemset;
    case AIUPTI_ACTIVITY_KIND_MEMORY:
      return Kind::kMemory;
    case AIUPTI_ACTIVITY_KIND_MEMCPY:
      return Kind::kMemcpy;
    case AIUPTI_ACTIVITY_KIND_MEMCPY2:
      return Kind::kMemcpy2;
    case AIUPTI_ACTIVITY_KIND_RUNTIME:
      return Kind::kRuntime;
    case AIUPTI_ACTIVITY_KIND_DRIVER:
      return Kind::kDriver;
    default:
      return Kind::kOther;
  }
}
inline Kind kind_of(const AIUpti_Activity* record) { return kind_from_raw(raw_kind(record)); }

// For messages.
constexpr std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, kKinds> names = {"invalid", "compute", "memset", "memory", "memcpy",
                                                          "memcpy2", "runtime", "driver", "other"};
  return names[static_cast<size_t>(kind)];
}

// Bytes of a record of this kind as this build expects it; 0 for kinds without a known layout.
constexpr size_t size_of(Kind kind) {
  switch (kind) {
    case Kind::kCompute:
      return sizeof(AIUpti_ActivityCompute);
    case Kind::kMemset:
      return sizeof(AIUpti_ActivityMemset);
    case Kind::kMemory:
      return sizeof(AIUpti_ActivityMemory);
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return sizeof(AIUpti_ActivityMemcpy);
    case Kind::kRuntime:
    case Kind::kDriver:
      return sizeof(AIUpti_ActivityAPI);
    case Kind::kInvalid:
    case Kind::kOther:
      break;
  }
  return 0;
}

// The most that any record wants; natural alignment of a 64-bit field.
inline constexpr size_t kAlignment = alignof(uint64_t);
inline bool aligned(const AIUpti_Activity* record) { return reinterpret_cast<uintptr_t>(record) % kAlignment == 0; }

template <class R>
const R* as(const AIUpti_Activity* record) {
  return reinterpret_cast<const R*>(record);
}
template <class R>
R* as(AIUpti_Activity* record) {
  return reinterpret_cast<R*>(record);
}

namespace detail {
template <class T, class R, class F>
T with_type(R* record, T otherwise, F read) {
  switch (kind_of(record)) {
    case Kind::kCompute:
      return read(as<AIUpti_ActivityCompute>(record));
    case Kind::kMemset:
      return read(as<AIUpti_ActivityMemset>(record));
    case Kind::kMemory:
      return read(as<AIUpti_ActivityMemory>(record));
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return read(as<AIUpti_ActivityMemcpy>(record));
    case Kind::kRuntime:
    case Kind::kDriver:
      return read(as<AIUpti_ActivityAPI>(record));
    case Kind::kInvalid:
    case Kind::kOther:
      break;
  }
  return otherwise;
}
}  // namespace detail

template <class R>
concept AnyRecord = std::is_class_v<R>;

// What every record with a layout has; 0 for one without. The typed form costs nothing, the other one a switch.
template <AnyRecord R>
uint64_t start(const R& record) {
  return record.start;
}
template <AnyRecord R>
uint64_t end(const R& record) {
  return record.end;
}
template <AnyRecord R>
uint64_t correlation_id(const R& record) {
  return record.correlation_id;
}
template <AnyRecord R>
void set_times(R& record, uint64_t start_ns, uint64_t end_ns) {
  record.start = start_ns;
  record.end = end_ns;
}
inline uint64_t start(const AIUpti_Activity* record) {
  return detail::with_type(record, uint64_t{0}, [](auto* r) { return start(*r); });
}
inline uint64_t end(const AIUpti_Activity* record) {
  return detail::with_type(record, uint64_t{0}, [](auto* r) { return end(*r); });
}
inline uint64_t correlation_id(const AIUpti_Activity* record) {
  return detail::with_type(record, uint64_t{0}, [](auto* r) { return correlation_id(*r); });
}
inline void set_times(AIUpti_Activity* record, uint64_t start_ns, uint64_t end_ns) {
  detail::with_type(record, 0, [=](auto* r) { return set_times(*r, start_ns, end_ns), 0; });
}

// Device work: compute, memcpy, memset, memory.
template <AnyRecord R>
uint32_t device_id(const R& record) {
  return static_cast<uint32_t>(record.device_id);
}
// nullopt for runtime and driver calls.
inline std::optional<uint32_t> device_id(const AIUpti_Activity* record) {
  return detail::with_type(record, std::optional<uint32_t>(), [](auto* r) -> std::optional<uint32_t> {
    if constexpr (requires { r->device_id; }) return device_id(*r);
    return std::nullopt;
  });
}
template <AnyRecord R>
uint32_t stream_id(const R& record) {
  return static_cast<uint32_t>(record.stream_id);
}
template <AnyRecord R>
std::optional<uint32_t> context_id(const R& record) {
  if constexpr (requires { record.context_id; }) return static_cast<uint32_t>(record.context_id);
  return std::nullopt;
}
// Memcpy, memset, memory.
template <AnyRecord R>
uint64_t bytes(const R& record) {
  return record.bytes;
}
// The device's raw cycle counters TS1 to TS5, for compute and memcpy. nullopt if the release has none, or if this
// record's are all zero (not sampled).
template <AnyRecord R>
std::optional<std::array<uint64_t, 5>> cycles(const R& record) {
  if constexpr (requires { record.cycles_ts5; }) {
    const std::array<uint64_t, 5> stamps = {record.cycles_ts1, record.cycles_ts2, record.cycles_ts3, record.cycles_ts4,
                                            record.cycles_ts5};
    if (stamps != std::array<uint64_t, 5>{}) return stamps;
  }
  return std::nullopt;
}

// Compute.
// Whether the record is about preparing the work on the device, not about executing it.
template <std::same_as<AIUpti_ActivityCompute> R>
bool is_prepare(const R& record) {
  return record.operation_kind == AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE;
}
// Up to the first NUL; within the record even if there is none. Not necessarily UTF-8.
template <std::same_as<AIUpti_ActivityCompute> R>
std::string_view name(const R& record) {
  if constexpr (std::is_array_v<decltype(record.name)>) {
    return {record.name, strnlen(record.name, sizeof(record.name))};
  } else {
    return record.name != nullptr ? std::string_view(record.name) : std::string_view();
  }
}
// When the host handed the work to its stream, and the runtime to the device: host clock, not corrected.
template <std::same_as<AIUpti_ActivityCompute> R>
std::optional<uint64_t> queued(const R& record) {
  if constexpr (requires { record.queued; }) return record.queued;
  return std::nullopt;
}
template <std::same_as<AIUpti_ActivityCompute> R>
std::optional<uint64_t> submitted(const R& record) {
  if constexpr (requires { record.submitted; }) return record.submitted;
  return std::nullopt;
}
// Scratchpad bytes that the work used, all cores together.
template <std::same_as<AIUpti_ActivityCompute> R>
std::optional<uint64_t> local_memory_total(const R& record) {
  if constexpr (requires { record.local_memory_total; }) return record.local_memory_total;
  return std::nullopt;
}

// Memcpy.
enum class CopyKind : uint8_t { kUnknown, kHtoD, kDtoH, kPtoP };
inline CopyKind copy_kind(const AIUpti_ActivityMemcpy& record) {
  switch (record.copy_kind) {
    case AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return CopyKind::kHtoD;
    case AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return CopyKind::kDtoH;
    case AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return CopyKind::kPtoP;
    default:
      return CopyKind::kUnknown;
  }
}

// Memory.
enum class MemoryOperation : uint8_t { kUnknown, kAllocation, kRelease };
inline MemoryOperation memory_operation(const AIUpti_ActivityMemory& record) {
  switch (record.memory_operation_type) {
    case AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION:
      return MemoryOperation::kAllocation;
    case AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE:
      return MemoryOperation::kRelease;
    default:
      return MemoryOperation::kUnknown;
  }
}
template <std::same_as<AIUpti_ActivityMemory> R>
std::optional<uint64_t> address(const R& record) {
  if constexpr (requires { record.address; }) return static_cast<uint64_t>(record.address);
  return std::nullopt;
}

// Runtime and driver calls. cbid.h says what the number means, and what data is.
template <std::same_as<AIUpti_ActivityAPI> R>
uint32_t cbid(const R& record) {
  return static_cast<uint32_t>(record.cbid);
}
template <std::same_as<AIUpti_ActivityAPI> R>
uint32_t process_id(const R& record) {
  return static_cast<uint32_t>(record.process_id);
}
// gettid() of the caller, where the release tells it.
template <std::same_as<AIUpti_ActivityAPI> R>
std::optional<uint32_t> thread_id(const R& record) {
  if constexpr (requires { record.thread_id; }) return static_cast<uint32_t>(record.thread_id);
  return std::nullopt;
}
template <std::same_as<AIUpti_ActivityAPI> R>
std::optional<uint64_t> data(const R& record) {
  if constexpr (requires { record.data; }) return static_cast<uint64_t>(record.data);
  return std::nullopt;
}

// What all of the above takes for granted about the header that was found.
namespace detail {
template <class R>
concept Record = std::is_standard_layout_v<R> && std::is_trivially_copyable_v<R> && alignof(R) <= kAlignment &&
                 sizeof(R::kind) == 1 && offsetof(R, kind) == 0 && sizeof(R::start) == 8 && sizeof(R::end) == 8;
template <class R>
concept DeviceRecord = Record<R> && requires(R r) { r.device_id, r.stream_id, r.correlation_id; };
static_assert(sizeof(AIUpti_Activity::kind) == 1 && offsetof(AIUpti_Activity, kind) == 0);
static_assert(DeviceRecord<AIUpti_ActivityCompute>);
static_assert(DeviceRecord<AIUpti_ActivityMemcpy>);
static_assert(DeviceRecord<AIUpti_ActivityMemset>);
static_assert(DeviceRecord<AIUpti_ActivityMemory>);
static_assert(Record<AIUpti_ActivityAPI>);
// All records of a walk keep the next one aligned.
static_assert(sizeof(AIUpti_ActivityCompute) % kAlignment == 0 && sizeof(AIUpti_ActivityMemcpy) % kAlignment == 0 &&
              sizeof(AIUpti_ActivityMemset) % kAlignment == 0 && sizeof(AIUpti_ActivityMemory) % kAlignment == 0 &&
              sizeof(AIUpti_ActivityAPI) % kAlignment == 0);
}  // namespace detail

}  // namespace kineto_spyre::aiupti
