// An event of the trace: one record that libaiupti wrote, and what was found out about it.
//
// The record stays where libaiupti wrote it; an event of 24 bytes points to it. The reader appends an event for each
// sound record, the launch joiner and the device events fill it in, csrc/kineto shows it. Who owns what: the records
// belong to the capture result, the events to the EventStore, and both live as long as the trace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "aiupti/records.h"

namespace kineto_spyre::trace {

inline constexpr uint32_t kIdBase = uint32_t{1} << 30;
inline constexpr int64_t kLongKernelNs = 1'000'000'000;

// What an event is shown as. A compute record may be any of the first three: a kernel, a copy (DMI, DMO), or the
// preparation of a kernel.
enum class Category : uint8_t { kKernel, kMemcpy, kMemset, kMemory, kRuntime, kDriver, kPrepare };
inline constexpr size_t kCategories = 7;
std::string_view category_name(Category category);

enum class InvalidReason : uint8_t {
  kStartZero,
  kEndBeforeStart,
  kUnreasonableTime,  // more than a day away from the session
  kUnknownKind,
  kShorterRecord,   // without fields that every release has
  kMalformed,       // a null, misaligned or stray pointer from the iterator, or one back to what it has passed
  kDuplicate,       // the same bytes again
  kForeignProcess,  // a call of another process, or device work that only such a call launched
  kTooManyTracks,
};
inline constexpr size_t kInvalidReasons = 9;
std::string_view invalid_reason_name(InvalidReason reason);

struct Event {
  enum Flag : uint8_t {
    kNone = 0,
    kExcluded = 1,    // not part of the trace: out of the window, not asked for, or found to be wrong later
    kFlow = 2,        // an end of an arrow: a launch with work in the trace, or work with its launch in the trace
    kCorrelated = 4,  // stands for its correlation id: all device work, and one host call an id
    kLong = 8,        // a kernel over kLongKernelNs
    kEarly = 16,      // device work that still starts before its launch
    kTail = 64,       // behind the record lies the collective that it belongs to (aiupti::CollectiveTail)
    kShort = 32,      // the record is shorter than this build's: it has only the fields that every release has
  };
  AIUpti_Activity* record;
  uint64_t link;   // index into Trace::ops plus 1, 0 for none. csrc/kineto puts the op's activity here.
  uint32_t id;     // the trace's correlation id
  uint16_t track;  // index into Trace::tracks
  Category category;
  Flag flags;  // not a uint8_t: writing one of those makes the compiler forget all that it had read

  bool has(Flag flag) const { return (flags & flag) != 0; }
  void set(int more) { flags = static_cast<Flag>(flags | more); }
  void clear(int which) { flags = static_cast<Flag>(flags & ~which); }
  // A call of the runtime or the driver; all else happened on a device.
  bool is_call() const { return category == Category::kRuntime || category == Category::kDriver; }
};
static_assert(sizeof(Event) == 24 && alignof(Event) == 8);

// Calls f with the typed record of an event of a device; nothing for a call.
template <class F>
void with_device_record(const Event& event, F f) {
  switch (aiupti::kind_of(event.record)) {
    case aiupti::Kind::kCompute:
      return f(*aiupti::as<AIUpti_ActivityCompute>(event.record));
    case aiupti::Kind::kMemcpy:
    case aiupti::Kind::kMemcpy2:
      return f(*aiupti::as<AIUpti_ActivityMemcpy>(event.record));
    case aiupti::Kind::kMemset:
      return f(*aiupti::as<AIUpti_ActivityMemset>(event.record));
    case aiupti::Kind::kMemory:
      return f(*aiupti::as<AIUpti_ActivityMemory>(event.record));
    default:
      return;
  }
}

// For a sentence: a kernel's name, or the kind and the correlation id of other work.
std::string describe(const Event& event);

// Whether two events hold the same bytes, which is no accident.
bool same_record(const Event& a, const Event& b);

// Where events live. Blocks never move; the owner decides what else stands between two events (stride).
class EventStore {
 public:
  struct Block {
    std::byte* first;  // the first event
    size_t capacity;   // in events
  };
  explicit EventStore(size_t stride) : stride_(stride) {}
  virtual ~EventStore() = default;
  EventStore(const EventStore&) = delete;
  EventStore& operator=(const EventStore&) = delete;

  // About so many events will be appended.
  virtual void expect(size_t) {}

  Event& append() {
    if (next_ == end_) begin_block();
    Event& event = *reinterpret_cast<Event*>(next_);
    next_ += stride_;
    return event;
  }
  // The events before the last one, backwards, at most so many of them; ends early at a block's border.
  template <class F>
  void each_before_last(size_t most, F f) {
    if (blocks_.empty()) return;
    const auto before = static_cast<size_t>(next_ - blocks_.back().first) / stride_ - 1;
    for (size_t i = 0; i < std::min(most, before); ++i) {
      f(*reinterpret_cast<const Event*>(next_ - (i + 2) * stride_));
    }
  }
  template <class F>
  void each(F f) {
    for (const Block& block : blocks_) {
      std::byte* const end = &block == &blocks_.back() ? next_ : block.first + block.capacity * stride_;
      for (std::byte* at = block.first; at != end; at += stride_) f(*reinterpret_cast<Event*>(at));
    }
  }

 protected:
  virtual Block allocate() = 0;

 private:
  void begin_block() {
    const Block block = allocate();
    blocks_.push_back(block);
    next_ = block.first;
    end_ = block.first + block.capacity * stride_;
  }

  size_t stride_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::vector<Block> blocks_;  // all full but the last
};

// Events one after the other, for tests.
class PlainEventStore : public EventStore {
 public:
  PlainEventStore() : EventStore(sizeof(Event)) {}

 private:
  Block allocate() override;
  std::vector<std::vector<Event>> memory_;
};

}  // namespace kineto_spyre::trace
