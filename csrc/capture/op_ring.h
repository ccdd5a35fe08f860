// The flight recorder's op events: they go round as its records do (ring.h), and never touch those of sessions.
//
// Memory is cut into blocks of 4 KiB. A thread writes to a block of its own; one that is full, or whose thread has
// ended, is handed over, and the thread takes a free one:
//
//           take: a thread                    hand over: that thread              collect(): the keeper
//    free -------------------> writing -------------------------------> done ------------------------------> kept
//      ^                                                                                                       |
//      +-------------------------------------------------------------------------------------------------------+
//                                              collect(): older than asked, or room is needed
//
//    block   | header, 32 bytes | event | event | ...       16 bytes each
//    event   [ stamp | id << 3, kind ]
//    text    [ stamp | length << 3, kText ] and the characters in the places behind it: the name of the range that the
//            event before it began
//
// A block holds events of one thread. How many there are is in its header: written by the thread after each event
// (release), read by whoever takes a snapshot (acquire), so a snapshot needs nobody to stop. An event is neither
// allocated nor waited for: two stores and a counter's reading.
//
// What there is no block for is counted, and the next block of that thread says that there is a gap before it. Memory
// is mapped at the first start and stays: a thread may write to its block at any later time. In a child of a fork
// there is no ring until it starts one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/capture.h"

namespace kineto_spyre::capture::op_ring {

// From here on events are kept. False, with a sentence in *error, if there is no memory. A second start keeps the
// first one's budget.
bool start(size_t budget_bytes, int64_t keep_ns, std::string* error);
void stop() noexcept;
bool is_on() noexcept;

// The calling thread's. id below 2^61. Off: one load.
void push_op(uint64_t id) noexcept;
void pop_op() noexcept;
// At most kLongestName characters of the name are kept.
inline constexpr size_t kLongestName = 1024;
void push_range(std::string_view name) noexcept;
void pop_range() noexcept;

// The keeper's: recycles what is old, so that there are free blocks.
void collect() noexcept;

struct Slice {
  int64_t begin, end;  // ns since the Unix epoch
  uint64_t id;         // of an op; a range's index into `names`
  int32_t tid;
  bool range;
  bool open;  // it had not ended: `end` is when the snapshot was taken
};
struct Snapshot {
  // As csrc/trace takes them: an op's id is its place in `slices`, plus 1.
  std::vector<ThreadOpEvents> threads;
  std::vector<Slice> slices;  // of each thread in the order of their begins
  std::vector<std::string> names;
  int64_t whole_from_ns = 0;
  uint64_t dropped = 0;
  double clock_error_ns = 0;
};
// Throws std::bad_alloc.
Snapshot snapshot();

struct Status {
  int64_t whole_from_ns = 0;
  uint64_t dropped = 0;
  int64_t last_drop_ns = 0;  // 0: none
  size_t kept_bytes = 0;
};
Status status() noexcept;
void forget_after_fork() noexcept;

}  // namespace kineto_spyre::capture::op_ring
