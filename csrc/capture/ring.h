// The flight recorder's records: libaiupti's buffers go round, the newest of them stay.
//
// While a ring runs, it lends all of libaiupti's buffers, whether a session runs or not. Memory is cut into frames of
// one size, so that no flush, however often, leaves it in pieces:
//
//    frame        lend()             complete(): libaiupti's thread          collect(): the keeper, or whoever asks
//    free ------------------> lent --------------------------------> returned -----------------------------> kept
//      ^                        |  with nothing in it                                                          |
//      +------------------------+------------------------------------------------------------------------------+
//                                                                     collect(): older than asked, or room is needed
//
// lent -> anything is a compare-and-swap: of two completions of one frame one is rejected. returned is a list that many
// push to and one empties at once. What is kept belongs to whoever holds the ring's lock: the keeper thread, which
// comes every few milliseconds, and control. libaiupti's threads never take it.
//
// A session on top gets a copy of each buffer that comes back from prepare() on, made by whoever collects; so its
// passes may correct records in place, and what is recycled here stays there. A snapshot is a copy, too.
//
// What can run out is the frames, if libaiupti fills them faster than they are collected: its records then go to memory
// that is thrown away, and are counted (RingStatus). Recycling is no loss but says since when the records are whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "capture/capture.h"

namespace kineto_spyre::capture {

struct RingConfig {
  size_t budget_bytes = size_t{64} << 20;  // frames; op events go round in a ring of their own (op_ring.h)
  int64_t keep_ns = 0;                     // how long records stay at least, if the budget has room for them
  uint64_t (*count_records)(uint8_t* data, size_t valid) noexcept = nullptr;  // as in Config
};

struct RingStatus {
  bool running = false;
  int64_t whole_from_ns = 0;  // since the Unix epoch: all records since then are here, but for those that are counted
  size_t kept_bytes = 0;
  uint64_t kept_buffers = 0;
  uint64_t recycled_early = 0;  // buffers that made room before their time
  uint64_t requests_without_buffer = 0;
  uint64_t records_dropped = 0;
  uint64_t uncounted_buffers = 0;
  int64_t last_drop_ns = 0;  // when one of these three grew last, about; 0: never
};

// False, with a sentence in *error, if one runs or there is no memory. Register the callbacks and enable kinds after.
bool start_ring(const RingConfig& config, std::string* error);
// From now on buffers come from the session, if there is one. Flush libaiupti after this and before stop_ring().
void stop_lending() noexcept;
void stop_ring() noexcept;
bool ring_is_running() noexcept;
// Takes what came back so far, for the ring and for the session on top. After a flush, before anything is asked.
void collect_ring() noexcept;
// The session's copies: off while it is paused. Collects before it changes.
void copy_to_session(bool on) noexcept;
RingStatus ring_status() noexcept;
// A copy of what is kept. Throws std::bad_alloc.
CaptureResult snapshot_ring();

}  // namespace kineto_spyre::capture
