// What happens after the program stopped: from libaiupti's records to the events of a trace. The door of this room.
//
// Pure functions over records: no PyTorch, no Kineto, no clock, no global state. What goes in: the buffers that came
// back, each thread's op events, and later the ranges that the profiler recorded. What comes out: events that point to
// the records, the tracks that they stand on, the ranges of the devices, what was found about the clocks, and counts.
//
// The passes, in the order in which a record meets them:
//
//   process_ids        by which process id the records know this program
//   record_reader      iterates over each buffer with the library's own iterator; checks kind, size, place and times
//   launch_joiner      a host call: which op and which ranges were open on its thread (op_timeline), and whether it is
//                      the launch of its correlation id (correlation_table)
//   device_events      device work: its launch, hence its op, its ranges and whether it belongs to the window; placed
//   on
//                      a track (tracks)
//   clock_alignment    whether the launches and waits (clock_evidence) show that a device's clock is off, and by how
//   much user_annotations   from the ranges and the work launched in them to ranges on the devices
//
// One pass over the records does nearly all, because memory is what it costs: each record is checked, joined, placed
// and weighed as evidence about the clocks while it is at hand. Buffers that begin with a host call go first, so that
// device work finds its launch; what does not is pending until the end. If a device's clock is off, its records are
// corrected in place and all device work is placed once more.
//
// Identity. Two id spaces never meet: op ids are PyTorch's; correlation ids are libaiupti's, of any width and value.
// The trace shows the latter as ids of its own: distinct, positive, above kIdBase, so that they equal neither an op's
// id nor that of a fwdbwd arrow, and other ones in the next session.
//
// Conservation: records read = captured + invalid + out of window + not requested, always.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aiupti/records.h"
#include "capture/capture.h"
#include "trace/event.h"

namespace kineto_spyre::trace {

using NextRecord = AIUpti_ResultTypes (*)(uint8_t* buffer, size_t valid, AIUpti_Activity** record);

// A record_function range as the profiler recorded it: times in ns since the epoch, host clock; end not included.
struct HostRange {
  uint64_t id;  // PyTorch's user correlation id
  int64_t tid;
  int64_t begin, end;
};

// From begin to end, a thread of the autograd engine ran backward for another thread, whose ranges own that work.
struct BackwardInterval {
  int64_t tid;
  int64_t caller_tid;
  int64_t begin, end;
};

struct Input {
  std::span<const capture::Buffer> buffers;
  std::span<const capture::ThreadOpEvents> threads;
  NextRecord next_record;
};

struct Options {
  int64_t window_begin = 0;  // ns since the epoch, host clock, both inclusive
  int64_t window_end = 0;
  uint32_t process_id = 0;
  // Whether a process has that id in this pid namespace; null: not known, and then it is taken to have.
  bool (*process_exists)(uint32_t process_id) = nullptr;
  bool align_clocks = true;
  // The records are the emulated library's: what only it is known to write is read, too (aiupti::wait_target(),
  // aiupti::CollectiveTail).
  bool emulated = false;
  // What of it the user asked for; the rest is only joined with. Preparations only on request.
  std::array<bool, kCategories> wanted = {true, true, true, true, true, true, false};

  bool wants(Category category) const { return wanted[static_cast<size_t>(category)]; }
};

// One line of events in the trace.
struct Track {
  bool host;
  int64_t process;  // a process id, or a device's index
  int64_t tid;      // a thread id; on a device: a number of our own, see tracks.h
  int64_t sort;
  std::string name;
};

// From the first to the last device work of one record_function range on one stream.
struct DeviceRange {
  uint64_t range_id;  // PyTorch's user correlation id
  uint16_t track;
  uint16_t level;  // 1: stands in no other range of its track
  int64_t start, end;
};

// What was found about a device's clock: host = device - (offset + drift * (device - reference)).
struct DeviceClock {
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

struct RecordSizes {  // bytes of a record of one kind
  size_t built = 0;
  size_t seen = 0;  // the last that differed from built, else built; 0 if there was no record
  size_t read = 0;  // with what is read behind the record (aiupti::CollectiveTail); 0 where nothing is
};

struct Trace {
  std::vector<uint64_t> ops;  // PyTorch's op ids, as pushed; Event::link - 1 is an index
  std::vector<Track> tracks;
  std::vector<DeviceRange> ranges;
  std::vector<uint32_t> devices;    // ascending
  std::vector<DeviceClock> clocks;  // one a device

  uint64_t records_read = 0;  // records that the iterator returned
  std::array<uint64_t, kCategories> captured{};
  std::array<uint64_t, kInvalidReasons> invalid{};
  uint64_t out_of_window = 0;
  uint64_t not_requested = 0;
  uint64_t overlaps = 0;          // kernels that begin before another one on their stream has ended
  uint64_t tracks_exhausted = 0;  // copies for which there was no free track
  uint64_t long_kernels = 0;      // over kLongKernelNs
  uint64_t early = 0;             // device work before its launch, after alignment
  uint64_t unlinked = 0;          // device work without a launch in the capture
  uint64_t unknown_calls = 0;     // of a callback id that has no name here
  uint64_t unfinished_reads = 0;
  uint64_t linked = 0;                // device work with its launch in the capture
  uint64_t prepare_operations = 0;    // shown or not
  uint64_t calls_without_thread = 0;  // host calls with no usable thread id
  // By which process id the host calls of this program know it, if it is another one than the system's; else 0.
  uint32_t other_process_id = 0;
  uint64_t launches_without_work = 0;  // if there is no device work at all
  uint64_t launches_not_joined = 0;    // if there is device work, and none of it joins a launch
  uint64_t launches_without_op = 0;    // of threads that run ops, and none of whose launches joins one
  // Launches on threads that run no ops while several threads had one open, if no launch is on a thread that runs ops.
  uint64_t launches_of_unknown_threads = 0;
  std::array<RecordSizes, aiupti::kKinds> sizes{};
  // What the findings above name as their example: the first of its kind. Empty where there is none.
  std::string first_early, first_long, first_overlap;

  uint64_t total_captured() const;
  uint64_t total_invalid() const;
  void count_invalid(InvalidReason reason) { ++invalid[static_cast<size_t>(reason)]; }
};

struct Times {  // ns since the epoch
  int64_t begin, end;
  bool operator==(const Times&) const = default;
};
// A call within an op: where it lies outside of the op by less than a microsecond, it is brought in. The two are told
// by different clocks (libaiupti's, and PyTorch's counter brought to the time of day), and a viewer hides a slice, with
// its arrows, that outlasts the one around it.
Times within(Times op, Times call);

// The passes of one trace, in two steps, because PyTorch asks for a session's counts before it hands over its ranges.
// All that it refers to must outlive it.
class Passes;
class TraceMaking {
 public:
  // Everything but ranges: trace is whole when this returns.
  TraceMaking(const Input& input, const Options& options, EventStore* events, Trace* trace);
  ~TraceMaking();
  // Adds Trace::ranges and their tracks. Once.
  void add_ranges(std::span<const HostRange> ranges, std::span<const BackwardInterval> backward);

 private:
  std::unique_ptr<Passes> passes_;
};

}  // namespace kineto_spyre::trace
