// What happens while the program runs: libaiupti's buffers are lent and taken back, threads push and pop their ops.
//
// This is the door of csrc/capture: csrc/kineto and csrc/trace include no other header of this room but
// prefaulted_region.h. It knows neither PyTorch nor Kineto. Nothing here throws; callbacks and op events neither
// allocate, lock nor enter the kernel.
//
// libaiupti's callbacks carry no context pointer, so there is one capture a process at a time. Its life:
//
//   prepare() -> [armed: warm-up] -> open_window() -> [recording] -> close_window() -> take_result() -> idle
//                                                                 \-> abandon() -> idle
//
// Clock: nanoseconds since the Unix epoch (CLOCK_REALTIME), the one that Kineto and libaiupti's host records use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kineto_spyre::capture {

struct Config {
  size_t budget_bytes = size_t{1} << 30;   // all buffers of a session together; op events may have a quarter more
  size_t buffer_bytes = size_t{32} << 20;  // one buffer lent to libaiupti, as clients lend them; filled as it goes
  size_t max_records = 0;                  // in one buffer; 0: as many as fit
  bool op_events = true;
  // Records in a buffer, for what came back when the budget was used up. Called within the completion of that buffer,
  // as clients call the library there. Null: such records are not counted, only their buffers.
  uint64_t (*count_records)(uint8_t* data, size_t valid) noexcept = nullptr;
};

// A buffer that came back: records from data to data + valid.
struct Buffer {
  uint8_t* data;
  size_t size;
  size_t valid;
};

enum class OpEventKind : uint8_t { kPushOp, kPopOp, kPushRange, kPopRange };

// An edge of an op (PyTorch's correlation id) or of a record_function range (user id), on one thread.
struct OpEvent {
  int64_t ns;   // since the Unix epoch; at most CaptureResult::clock_error_ns() wrong
  uint64_t id;  // below 2^61; 0 for an end: an end closes the innermost open begin of its thread
  OpEventKind kind;
};

struct ThreadOpEvents {
  int32_t tid;                  // gettid() of the thread
  uint64_t dropped = 0;         // edges for which there was no room: all that came after `events`
  std::vector<OpEvent> events;  // in the order in which the thread made them, without a gap
};

// Whatever the capture could not keep or would not accept, between open_window() and take_result(). Each is one way in
// which records, or the ops that they belong to, go missing.
struct Drops {
  uint64_t requests_without_buffer = 0;  // the budget was used up: libaiupti got memory that is thrown away
  uint64_t records_dropped = 0;          // that came back in it
  uint64_t uncounted_buffers = 0;        // of it whose records could not be counted (it had several borrowers)
  uint64_t unknown_buffers = 0;          // completion of a buffer that is not lent
  uint64_t late_completions = 0;         // of an earlier session's buffer, with records, when no session was recording
  uint64_t oversized = 0;                // valid size beyond the size: read up to the size
  uint64_t op_events_dropped = 0;        // of all threads
  uint64_t buffers_not_returned = 0;     // lent, written to, and not given back by take_result()
};

// Everything that one session captured, and its owner: the buffers live until this is destroyed.
class CaptureResult {
 public:
  CaptureResult();
  CaptureResult(CaptureResult&&) noexcept;
  CaptureResult& operator=(CaptureResult&&) noexcept;
  ~CaptureResult();

  // In the order in which they were completed, but those that were lent in an earlier session come first. Which records
  // are of this session's window, their times tell.
  std::span<const Buffer> buffers() const;
  std::span<const ThreadOpEvents> threads() const;
  const Drops& drops() const;
  // What the reading of the clocks adds to the time of an op event, at most.
  double clock_error_ns() const;
  // Frees the op events; threads() is empty from then on.
  void free_op_events();

  struct Impl;
  explicit CaptureResult(Impl* impl);

 private:
  struct Delete {
    void operator()(Impl* impl) const;
  };
  std::unique_ptr<Impl, Delete> impl_;
};

// A session with a budget of so many MiB (a fraction is fine), which must be one.
Config config_of(double mib);
// Whether it makes at least two buffers, and this machine has so much memory.
bool is_budget(double mib);

// Allocates and touches what a session needs. False, with a sentence in *error, if there is no memory or another
// capture is under way.
bool prepare(const Config& config, std::string* error);
// Warm-up is over: buffers that came back so far are lent again, their records forgotten, drops count from here.
void open_window();
// No op event is kept after this. Those that were made are all kept: a thread in the middle of one is waited for.
void close_window();
// Call after libaiupti was flushed. Waits for callbacks that are still running, then takes everything. Nothing without
// a capture, or in a child that was forked from under it.
CaptureResult take_result();
void abandon();
// From prepare() to take_result() or abandon().
bool armed();

// The callbacks for aiuptiActivityRegisterCallbacks. Any thread, any order, any time.
void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) noexcept;
void on_buffer_completed(uint8_t* buffer, size_t size, size_t valid) noexcept;

// The op events of the calling thread. Off: one relaxed load and a branch.
void push_op(uint64_t id) noexcept;
void pop_op() noexcept;
void push_range(uint64_t id) noexcept;
void pop_range() noexcept;

}  // namespace kineto_spyre::capture
