// What happens after the program stopped: from libaiupti's records to the events of a trace.
//
// Pure functions over records: no PyTorch, no Kineto, no clock, no global state. The records stay where libaiupti wrote
// them; one Item of 24 bytes points to each that is part of the trace.
//
// One pass over the records does nearly all, for memory is what it costs: each buffer is read with the library's own
// walker, to its end, and each record, while it is at hand, is
//
//   checked   its kind, size, place and times
//   joined    a host call: which op and which record_function range was innermost on its thread at its begin (notes.h);
//             whether it is the launch of its correlation id (launches.h). Device work: its launch, hence its op, its
//             ranges and whether it belongs to the window
//   placed    on a row (tracks.h)
//   weighed   as evidence about the device's clock
//
// Buffers that begin with a host call go first, so that device work finds its launch. What does not is put off to the
// end. If the evidence says that a device's clock is off (clock.h), the device's records are corrected in place and all
// device work is placed once more.
//
// Identity. Two id spaces never meet: op ids are PyTorch's; correlation ids are libaiupti's, of any width and value.
// The trace shows the latter as ids of its own: distinct, positive, above kIdBase, so that they equal neither an op's
// id nor that of a fwdbwd arrow.
//
// Conservation: records read = captured + invalid + outside + not_requested, always.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aiupti/records.h"
#include "capture/capture.h"

namespace kineto_spyre::trace {

inline constexpr uint32_t kIdBase = uint32_t{1} << 30;
inline constexpr int64_t kLongKernelNs = 1'000'000'000;

enum class Category : uint8_t { kKernel, kMemcpy, kMemset, kMemory, kRuntime, kDriver };
inline constexpr size_t kCategories = 6;
std::string_view category_name(Category category);
Category category_of(aiupti::Kind kind);  // for kinds with a layout

enum class InvalidReason : uint8_t {
  kStartZero,
  kEndBeforeStart,
  kUnreasonableTime,  // more than a day away from the session
  kUnknownKind,
  kShorterRecord,   // than this build's record of that kind
  kMalformed,       // a null, misaligned or stray pointer from the walker, or one back to what it has passed
  kDuplicate,       // the same bytes again
  kForeignProcess,  // a call of another process, or device work that only such a call launched
  kTooManyTracks,
};
inline constexpr size_t kInvalidReasons = 9;
std::string_view invalid_reason_name(InvalidReason refusal);

struct Item {
  enum Flag : uint8_t {
    kNone = 0,
    kExcluded = 1,     // not part of the trace: outside of the window, or found wrong after the walk
    kFlow = 2,        // an end of an arrow: a launch with work in the trace, or work with its launch in the trace
    kCorrelated = 4,  // shows its correlation id: all device work, and one host call an id
    kLong = 8,        // a kernel over kLongKernelNs
    kEarly = 16,      // device work that still starts before its launch
  };
  AIUpti_Activity* record;
  uint64_t link;  // index into Trace::ops plus 1, 0 for none. csrc/kineto puts the op's activity here.
  uint32_t id;    // the trace's correlation id
  uint16_t track;  // index into Trace::tracks
  aiupti::Kind kind;
  Flag flags;  // not a uint8_t: writing one of those makes the compiler forget all that it had read

  bool has(Flag flag) const { return (flags & flag) != 0; }
  void set(int more) { flags = static_cast<Flag>(flags | more); }
  void clear(int which) { flags = static_cast<Flag>(flags & ~which); }
};
static_assert(sizeof(Item) == 24 && alignof(Item) == 8);

// Where items live. Blocks never move; the owner decides what else stands between two items (stride).
class ItemStore {
 public:
  struct Block {
    std::byte* first;  // the first item
    size_t capacity;   // in items
  };
  explicit ItemStore(size_t stride) : stride_(stride) {}
  virtual ~ItemStore() = default;
  ItemStore(const ItemStore&) = delete;
  ItemStore& operator=(const ItemStore&) = delete;

  // About so many items will be appended.
  virtual void expect(size_t) {}

  Item& append() {
    if (next_ == end_) begin_block();
    Item& item = *reinterpret_cast<Item*>(next_);
    next_ += stride_;
    return item;
  }
  // The items before the last one, backwards, at most so many of them; ends early at a block's border.
  template <class F>
  void each_before_last(size_t most, F f) {
    if (blocks_.empty()) return;
    const auto before = static_cast<size_t>(next_ - blocks_.back().first) / stride_ - 1;
    for (size_t i = 0; i < std::min(most, before); ++i) {
      f(*reinterpret_cast<const Item*>(next_ - (i + 2) * stride_));
    }
  }
  template <class F>
  void each(F f) {
    for (const Block& block : blocks_) {
      std::byte* const end = &block == &blocks_.back() ? next_ : block.first + block.capacity * stride_;
      for (std::byte* at = block.first; at != end; at += stride_) f(*reinterpret_cast<Item*>(at));
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

// Items one after the other, for tests.
class PlainStore : public ItemStore {
 public:
  PlainStore() : ItemStore(sizeof(Item)) {}

 private:
  Block allocate() override;
  std::vector<std::vector<Item>> memory_;
};

using NextRecord = AIUpti_ResultTypes (*)(uint8_t* buffer, size_t valid, AIUpti_Activity** record);

struct Input {
  std::span<const capture::Buffer> buffers;
  std::span<const capture::ThreadOpEvents> threads;
  NextRecord next_record;
};

struct Options {
  int64_t window_begin = 0;  // ns since the epoch, host clock, both inclusive
  int64_t window_end = 0;
  uint32_t process_id = 0;
  bool align_clocks = true;
  // What of it the user asked for; the rest is only joined with.
  std::array<bool, kCategories> wanted = {true, true, true, true, true, true};
  // Off: each record goes the slow path, with which tests compare the straight one.
  bool straight_ways = true;
};

// A row of the trace.
struct Track {
  bool host;
  int64_t process;  // a process id, or a device's index
  int64_t tid;      // a thread id; on a device: a number of our own, see rows.h
  int64_t sort;
  std::string name;
};

// From the first to the last device work of one record_function range on one stream.
struct Span {
  uint64_t range_id;  // PyTorch's user correlation id
  uint16_t track;
  uint16_t level;  // 1: stands in no other range of its row
  int64_t start, end;
};

// What was found about a device's clock: host = device - (offset + drift * (device - reference)).
struct Clock {
  uint32_t device = 0;
  bool applied = false;
  int64_t offset_ns = 0;  // of the device's clock against the host's, at the reference
  double drift_ppm = 0;
  int64_t reference_ns = 0;     // device clock
  uint64_t pairs = 0;           // launches and work compared
  int64_t earliest_ns = 0;      // the least time from a launch's begin to its work's begin, before any correction
  int64_t uncertainty_ns = -1;  // the true offset is at most this much below; -1 if nothing bounds it
  std::string reason;           // a sentence
};

struct Sizes {  // bytes of a record of one kind
  size_t built = 0;
  size_t seen = 0;  // the last that differed from built, else built; 0 if there was no record
};

struct Trace {
  std::vector<uint64_t> ops;  // PyTorch's op ids, as pushed; Item::link - 1 is an index
  std::vector<Track> tracks;
  std::vector<Span> spans;
  std::vector<uint32_t> devices;  // ascending
  std::vector<Clock> clocks;      // one a device

  uint64_t records_read = 0;  // records that the walker returned
  std::array<uint64_t, kCategories> captured{};
  std::array<uint64_t, kInvalidReasons> invalid{};
  uint64_t out_of_window = 0;
  uint64_t not_requested = 0;
  uint64_t overlaps = 0;       // kernels that begin before another one on their stream has ended
  uint64_t tracks_exhausted = 0;        // copies for which there was no free row
  uint64_t long_kernels = 0;   // over kLongKernelNs
  uint64_t early = 0;          // device work before its launch, after alignment
  uint64_t unlinked = 0;       // device work without a launch in the capture
  uint64_t unknown_calls = 0;  // of a callback id that has no name here
  uint64_t unfinished_reads = 0;
  uint64_t launches_without_work = 0;  // if there is no device work at all
  std::array<Sizes, aiupti::kKinds> sizes{};
  std::vector<std::string> warnings;  // sentences

  uint64_t total_captured() const;
  uint64_t total_invalid() const;
};

struct Times {  // ns since the epoch
  int64_t begin, end;
  bool operator==(const Times&) const = default;
};
// A call within an op: where it lies outside of the op by less than a microsecond, it is brought in. The two are told
// by different clocks (libaiupti's, and PyTorch's counter brought to the time of day), and a viewer hides a slice, with
// its arrows, that outlasts the one around it.
Times within(Times op, Times call);

Trace make_trace(const Input& input, const Options& options, ItemStore& items);

}  // namespace kineto_spyre::trace
