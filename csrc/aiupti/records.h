// The one place that knows how libaiupti lays out its records.
//
// <libaiupti/aiupti_activity.h> is the SDK's if LIBAIUPTI_INSTALL_DIR named one when this was built, else ours.
// Releases differ: fields moved, some came later, and derived records call their kind `activity_kind`. So the rest of
// the project names no field of a record: it asks here, by what it wants to know, and gets it in one width and one
// meaning whatever header was found. Only names that public clients use are used; what may be missing is asked for with
// `requires`, and is then nullopt, decided when this is compiled. Enumerators can't be asked for in C++: CMakeLists.txt
// looks for them and defines AIUPTI_LACKS_<name>.
//
//   switch (kind_of(record)) {
//     case Kind::kCompute: use(name(*as<AIUpti_ActivityCompute>(record))); ...
//
// The library that runs may be another release than the header. A record that is longer than the header says is read as
// far as the header goes. One that is shorter (older releases have no cycle stamps: 40 bytes less) is read if it holds
// least_size_of() bytes: all fields but those that came later, whose accessors take the record's true size.
//
// Times are nanoseconds since the Unix epoch, of the clock of whoever wrote the record. They may be written too: the
// device's clock is corrected in place, in the buffer that libaiupti gave back.
//
// Nothing here checks what it reads. A record must be aligned() and least_size_of() bytes of it must lie within its
// buffer; csrc/trace sees to that before it reads one.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

#include "aiupti/enumerators.h"

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

namespace detail {
// f.operator()<the type of records of this kind>(); otherwise for kinds without a known layout.
template <class T, class F>
constexpr T with_type_of(Kind kind, T otherwise, F f) {
  switch (kind) {
    case Kind::kCompute:
      return f.template operator()<AIUpti_ActivityCompute>();
    case Kind::kMemset:
      return f.template operator()<AIUpti_ActivityMemset>();
    case Kind::kMemory:
      return f.template operator()<AIUpti_ActivityMemory>();
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return f.template operator()<AIUpti_ActivityMemcpy>();
    case Kind::kRuntime:
    case Kind::kDriver:
      return f.template operator()<AIUpti_ActivityAPI>();
    case Kind::kInvalid:
    case Kind::kOther:
      break;
  }
  return otherwise;
}
}  // namespace detail

// Bytes of a record of this kind as this build expects it; 0 for kinds without a known layout.
constexpr size_t size_of(Kind kind) {
  return detail::with_type_of(kind, size_t{0}, []<class R>() { return sizeof(R); });
}

namespace detail {
// The end of the last field that every release has, rounded up to what records are aligned to.
template <class R>
constexpr size_t least_size() {
  size_t least = 0;
#define KINETO_SPYRE_FIELD(name) \
  if constexpr (requires(R record) { record.name; }) least = std::max(least, offsetof(R, name) + sizeof(R::name))
  KINETO_SPYRE_FIELD(operation_kind);
  KINETO_SPYRE_FIELD(copy_kind);
  KINETO_SPYRE_FIELD(memory_operation_type);
  KINETO_SPYRE_FIELD(cbid);
  KINETO_SPYRE_FIELD(device_id);
  KINETO_SPYRE_FIELD(context_id);
  KINETO_SPYRE_FIELD(stream_id);
  KINETO_SPYRE_FIELD(process_id);
  KINETO_SPYRE_FIELD(thread_id);
  KINETO_SPYRE_FIELD(correlation_id);
  KINETO_SPYRE_FIELD(start);
  KINETO_SPYRE_FIELD(end);
  KINETO_SPYRE_FIELD(queued);
  KINETO_SPYRE_FIELD(submitted);
  KINETO_SPYRE_FIELD(local_memory_total);
  KINETO_SPYRE_FIELD(name);
  KINETO_SPYRE_FIELD(address);
  KINETO_SPYRE_FIELD(bytes);
  KINETO_SPYRE_FIELD(data);
#undef KINETO_SPYRE_FIELD
  return (least + 7) / 8 * 8;
}
}  // namespace detail

// Bytes that a record of this type must have to be read: without what later releases appended.
template <class R>
inline constexpr size_t kLeastSize = detail::least_size<R>();

// The same by kind; 0 for kinds without a known layout.
constexpr size_t least_size_of(Kind kind) {
  return detail::with_type_of(kind, size_t{0}, []<class R>() { return kLeastSize<R>; });
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
template <class T, class Any, class F>
T with_type(Any* record, T otherwise, F read) {
  return with_type_of(kind_of(record), otherwise, [&]<class R>() { return read(as<R>(record)); });
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
// The device's raw cycle counters TS1 to TS5, for compute and memcpy: 32 bits each, which wrap (cycles_between()).
// size: the record's bytes. nullopt if the release has none, if this record ends before them, or if they are all zero
// (not sampled; a copy's always are).
template <AnyRecord R>
std::optional<std::array<uint64_t, 5>> cycles(const R& record, size_t size = sizeof(R)) {
  if constexpr (requires { record.cycles_ts5; }) {
    if (size < offsetof(R, cycles_ts5) + sizeof(record.cycles_ts5)) return std::nullopt;
    const std::array<uint64_t, 5> stamps = {record.cycles_ts1, record.cycles_ts2, record.cycles_ts3, record.cycles_ts4,
                                            record.cycles_ts5};
    if (stamps != std::array<uint64_t, 5>{}) return stamps;
  }
  return std::nullopt;
}
// Cycles from one stamp to a later one, at most 2^32 - 1 of them.
constexpr uint32_t cycles_between(uint64_t first, uint64_t second) {
  return static_cast<uint32_t>(second) - static_cast<uint32_t>(first);
}

enum class CopyKind : uint8_t { kUnknown, kHtoD, kDtoH, kPtoP };

// Compute.
// What the record is about: preparing the work on the device, executing it, or moving its data in or out (DMI, DMO),
// which is a copy and no kernel. kUnknown, a number that clients don't know, is to be taken for executing.
enum class Operation : uint8_t { kUnknown, kPrepare, kExecute, kMoveIn, kMoveOut };
template <std::same_as<AIUpti_ActivityCompute> R>
Operation operation(const R& record) {
  switch (static_cast<int>(record.operation_kind)) {
    case 1:  // stated as numbers: no client has a name for them
      return Operation::kPrepare;
    case 2:
      return Operation::kExecute;
    case static_cast<int>(detail::kDmi):
      return Operation::kMoveIn;
    case static_cast<int>(detail::kDmo):
      return Operation::kMoveOut;
    default:
      return Operation::kUnknown;
  }
}
template <std::same_as<AIUpti_ActivityCompute> R>
bool is_prepare(const R& record) {
  return operation(record) == Operation::kPrepare;
}
// Where a compute record's data goes: kUnknown for one that is no copy.
template <std::same_as<AIUpti_ActivityCompute> R>
CopyKind copy_kind(const R& record) {
  const Operation what = operation(record);
  if (what == Operation::kMoveIn) return CopyKind::kHtoD;
  return what == Operation::kMoveOut ? CopyKind::kDtoH : CopyKind::kUnknown;
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
inline CopyKind copy_kind(const AIUpti_ActivityMemcpy& record) {
  switch (static_cast<int>(record.copy_kind)) {
    case static_cast<int>(detail::kHtoD):
      return CopyKind::kHtoD;
    case static_cast<int>(detail::kDtoH):
      return CopyKind::kDtoH;
    case static_cast<int>(detail::kPtoP):
      return CopyKind::kPtoP;
    default:
      return CopyKind::kUnknown;
  }
}

// Memory.
enum class MemoryOperation : uint8_t { kUnknown, kAllocation, kRelease };
inline MemoryOperation memory_operation(const AIUpti_ActivityMemory& record) {
  switch (static_cast<int>(record.memory_operation_type)) {
    case static_cast<int>(detail::kAllocation):
      return MemoryOperation::kAllocation;
    case static_cast<int>(detail::kRelease):
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

// What a wait (aiuScheduleWait) waits for.
struct WaitTarget {
  uint32_t device;
  uint32_t stream;  // 0: all of the device
};
// Only the emulated libaiupti is known to pack this into `data` (device << 32 | stream, all ones: not told); what a
// real one puts there is not public, so ask this only of a library that is known to do so (Library::emulated).
template <std::same_as<AIUpti_ActivityAPI> R>
std::optional<WaitTarget> wait_target(const R& record) {
  const uint64_t packed = data(record).value_or(UINT64_MAX);
  if (packed == UINT64_MAX) return std::nullopt;
  return WaitTarget{static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)};
}

// What all of the above takes for granted about the header that was found.
namespace detail {
template <class R>
concept KindFirst = requires { requires offsetof(R, activity_kind) == 0 && sizeof(R::activity_kind) == 1; } ||
                    requires { requires offsetof(R, kind) == 0 && sizeof(R::kind) == 1; };
template <class R>
concept Record = std::is_standard_layout_v<R> && std::is_trivially_copyable_v<R> && alignof(R) <= kAlignment &&
                 KindFirst<R> && sizeof(R::start) == 8 && sizeof(R::end) == 8;
template <class R>
concept DeviceRecord = Record<R> && requires(R r) { r.device_id, r.stream_id, r.correlation_id; };
static_assert(sizeof(AIUpti_Activity::kind) == 1 && offsetof(AIUpti_Activity, kind) == 0);
static_assert(DeviceRecord<AIUpti_ActivityCompute>);
static_assert(DeviceRecord<AIUpti_ActivityMemcpy>);
static_assert(DeviceRecord<AIUpti_ActivityMemset>);
static_assert(DeviceRecord<AIUpti_ActivityMemory>);
static_assert(Record<AIUpti_ActivityAPI>);
// Each record keeps the next one aligned.
static_assert(sizeof(AIUpti_ActivityCompute) % kAlignment == 0 && sizeof(AIUpti_ActivityMemcpy) % kAlignment == 0 &&
              sizeof(AIUpti_ActivityMemset) % kAlignment == 0 && sizeof(AIUpti_ActivityMemory) % kAlignment == 0 &&
              sizeof(AIUpti_ActivityAPI) % kAlignment == 0);
}  // namespace detail

}  // namespace kineto_spyre::aiupti
