// What happens while the program runs: libaiupti's buffers are lent and taken back, threads note their ops.
//
// This is the door of csrc/capture: the only header of this room that csrc/kineto and csrc/trace include. It knows
// neither PyTorch nor Kineto. Nothing here throws; callbacks and notes neither allocate, lock nor enter the kernel.
//
// libaiupti's callbacks carry no context pointer, so there is one capture a process at a time. Its life:
//
//   prepare() -> [armed: warm-up] -> open_window() -> [recording] -> close_window() -> harvest() -> idle
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
  size_t budget_bytes = size_t{1} << 30;  // all buffers of a session together
  size_t buffer_bytes = size_t{4} << 20;  // one buffer lent to libaiupti
  size_t max_records = 0;                 // in one buffer; 0: as many as fit
  bool op_notes = true;
};

// A buffer that came back: records from data to data + valid.
struct Buffer {
  uint8_t* data;
  size_t size;
  size_t valid;
};

enum class NoteKind : uint8_t { kOpBegin, kOpEnd, kUserBegin, kUserEnd };

// An edge of an op (PyTorch's correlation id) or of a record_function range (user id), on one thread.
struct Note {
  int64_t ns;   // since the Unix epoch
  uint64_t id;  // 0 for an end: an end closes the innermost open begin of its thread
  NoteKind kind;
};

struct ThreadNotes {
  int32_t tid;              // gettid() of the thread
  uint64_t lost = 0;        // edges for which there was no room
  std::vector<Note> notes;  // in the order in which the thread made them
};

// Whatever the capture could not keep or would not accept.
struct Losses {
  uint64_t requests_refused = 0;     // libaiupti asked for a buffer and there was none
  uint64_t unknown_buffers = 0;      // completion of a buffer that is not lent
  uint64_t late_completions = 0;     // completion after the harvest
  uint64_t oversized = 0;            // valid size beyond the size: read up to the size
  uint64_t notes_lost = 0;           // op edges
};

// Everything that one session captured, and its owner: the buffers live until this is destroyed.
class Harvest {
 public:
  Harvest();
  Harvest(Harvest&&) noexcept;
  Harvest& operator=(Harvest&&) noexcept;
  ~Harvest();

  std::span<const Buffer> buffers() const;
  std::span<const ThreadNotes> threads() const;
  const Losses& losses() const;

  struct Impl;
  explicit Harvest(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Reads KINETO_SPYRE_BUFFER_MB, else `kineto_mb` (Kineto's ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB; 0: unset).
// An unreadable or absurd value yields the default and a sentence in *warning.
Config config_from_environment(size_t kineto_mb, std::string* warning);

// Allocates and touches what a session needs. False, with a sentence in *error, if there is no memory or another
// capture is under way.
bool prepare(const Config& config, std::string* error);
void open_window();
void close_window();
// Call after libaiupti was flushed. Waits for callbacks that are still running, then takes everything.
Harvest harvest();
void abandon();
bool armed();

// The callbacks for aiuptiActivityRegisterCallbacks. Any thread, any order, any time.
void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) noexcept;
void on_buffer_completed(uint8_t* buffer, size_t size, size_t valid) noexcept;

// The notes of the calling thread. Off: one relaxed load and a branch.
void note_op_begin(uint64_t id) noexcept;
void note_op_end() noexcept;
void note_user_begin(uint64_t id) noexcept;
void note_user_end() noexcept;

}  // namespace kineto_spyre::capture
