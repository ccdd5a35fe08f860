// Faults on demand: what spyreSetFaults, KINETO_SPYRE_FAULTS and kineto_spyre.emulator.faults() take.
//
// A specification is a comma-separated list of key=value; of a key that takes 0 or 1, the key alone means 1. Durations
// are a number with ns, us, ms or s (none: ns). "every N" means the N-th, the 2N-th and so on, counted from when the
// faults were set. Where D: is allowed, D is a device and the fault is for it alone; without it, for all.
//
// Clocks
//   clock_offset=[D:]DURATION    the device's clock is ahead by this (negative: behind)
//   clock_drift=[D:]PPM          and gains this many parts per million from now on
// Records of device work (kernels, copies, fills), on their way to a buffer
//   late=DURATION                delivered that long after the work's end
//   early=1                      delivered as soon as the work has its place, while it still lies in the future
//   shuffle=1                    each batch in reverse order
//   duplicate=N                  every N-th record twice
//   drop=N                       every N-th record not at all, and counted as dropped
//   torn=N                       every N-th: the second half of it holds 0xDB
//   zero_start=N, backwards=N    every N-th: start is 0, or lies after end
//   size=BYTES                   compute records are longer or shorter by this, at their end: +40 or -40, for example
//   bad_name=N, unterminated=N   every N-th kernel's name is not UTF-8, or has no NUL within its 128 bytes
//   unknown_kind=N               after every N-th a record of kind 42, 64 bytes, as a newer library might write
// Records of host calls
//   unknown_id=N                 every N-th has callback id 9999
// Buffers: trouble
//   no_buffers=N                 after N more buffers libaiupti gets no further one
//   truncate=N                   every N-th buffer's valid size ends in the middle of its last record
//   swap_buffers=1               buffers are completed at a flush only, last first
//   complete_twice=N             every N-th buffer is completed twice
//   complete_late=DURATION       buffers are completed that long after they were full or flushed
//   strange_thread=1             each buffer is completed on a thread of its own
// libaiupti's functions
//   fail=NAME[+NAME...]          these return an error: register, enable, disable, next, dropped, flush
//   null_record=N                every N-th call of GetNextRecord succeeds with a null record
//   hang_flush=DURATION          flush blocks that long, or until the faults are cleared
// What another release of libaiupti might do, where nobody knows what the real one does
//   discard_at_disable=1         what is recorded and not delivered when its kind is disabled is thrown away, uncounted
//   flush_when_disabled=WHAT     a flush with no kind enabled: nothing (succeeds, delivers nothing) or fail (an error)
//   rotate_at_flush=1            a flush requests the next buffer at once, whether there are records for it or not
//   end_code=N                   what GetNextRecord returns at a buffer's end, from 1 to 1023 (3)
//   buffer_limit=N               at most N buffers from one flush to the next; what finds none is dropped and counted
//   buffer_per_thread=1          each thread has buffers of its own: they come back in no order
//   null_thread_ids=1            thread_id of host calls is 0
//   other_namespace=1            process and thread ids are those of another pid namespace
//   other_process=1              host calls name another process, which is there (number 1), and threads of it
//   wrong_thread_ids=1           thread_id of host calls is a number that no thread here has
//   api_field_order=1            records of host calls have their fields in another order, and the same size
//   attributes=1                 records of host calls are 256 bytes longer: a text follows
//   short_compute=1              compute records without the cycle stamps: the same as size=-40
//   collectives=1                compute and copy records are 24 bytes longer: the collective that they belong to
//   dmi_dmo=1                    each kernel in up to three compute records: DMI, EXECUTE, DMO
//   prepare=1                    compute records with operation kind PREPARE as well, before those of the execution
// Devices
//   device_lost=[D:]N            after N more pieces of work the device is lost: whatever is asked of it fails
//   throttle=[D:]CELSIUS         while metrics are written: a card this hot makes modelled kernels last twice as long
//   hang=[D:]N                   the N-th kernel launched from now on never ends
//   timeout=DURATION             how long a wait for a kernel that never ends lasts before it fails (10 s)
//
// Clearing the faults, or setting others, mends: kernels that never ended end now, lost devices come back (their memory
// as it was, the work that had not ended gone), clocks agree again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tracer.h"

namespace kineto_spyre::emulator {

inline constexpr int kMaxDevices = 8;

// Every N-th of something. 0: never.
class Every {
 public:
  void set(uint64_t n) { n_ = n; }
  bool on() const { return n_ != 0; }
  bool hit() { return n_ != 0 && (count_.fetch_add(1, std::memory_order_relaxed) + 1) % n_ == 0; }

 private:
  uint64_t n_ = 0;
  std::atomic<uint64_t> count_{0};
};

// Counts down to the one that is hit. Negative: never.
class After {
 public:
  void set(int64_t n) { left_.store(n, std::memory_order_relaxed); }
  bool on() const { return left_.load(std::memory_order_relaxed) >= 0; }
  // Whether n were used up before this call. Stays so.
  bool used_up() {
    const int64_t left = left_.load(std::memory_order_relaxed);
    if (left < 0) return false;
    if (left == 0) return true;
    left_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  // Whether this call is the n-th.
  bool reached() {
    return left_.load(std::memory_order_relaxed) > 0 && left_.fetch_sub(1, std::memory_order_relaxed) == 1;
  }

 private:
  std::atomic<int64_t> left_{-1};
};

enum FailingFunction : uint32_t {
  kFailRegister = 1,
  kFailEnable = 2,
  kFailDisable = 4,
  kFailNext = 8,
  kFailDropped = 16,
  kFailFlush = 32,
};

enum class FlushWhenDisabled : uint8_t { kWorks, kNothing, kFail };

// One specification in force. Its settings never change; a later one takes its place and this one stays, as some thread
// may still read it (a few hundred bytes each).
struct Faults {
  std::array<EmulatedClock, kMaxDevices> clocks{};
  uint64_t late_ns = 0;
  bool early = false, shuffle = false;
  Every duplicate, drop, torn, zero_start, backwards, bad_name, unterminated, unknown_kind, unknown_id;
  int64_t size = 0;
  After no_buffers;
  Every truncate, complete_twice;
  bool swap_buffers = false, strange_thread = false;
  uint64_t complete_late_ns = 0;
  uint32_t fail = 0;
  Every null_record;
  uint64_t hang_flush_ns = 0;
  std::array<After, kMaxDevices> device_lost{};
  std::array<After, kMaxDevices> hang{};
  std::array<double, kMaxDevices> throttle{};  // 0: never
  uint64_t timeout_ns = 10'000'000'000;
  bool discard_at_disable = false, rotate_at_flush = false, buffer_per_thread = false;
  FlushWhenDisabled flush_when_disabled = FlushWhenDisabled::kWorks;
  int32_t end_code = 0;       // 0: the usual one
  uint64_t buffer_limit = 0;  // 0: none
  bool null_thread_ids = false, other_namespace = false, other_process = false, wrong_thread_ids = false,
       api_field_order = false, attributes = false;
  bool prepare = false, dmi_dmo = false, collectives = false;
  const Faults* before = nullptr;  // those that were in force earlier
};

// Null, with a sentence in *error, for what it can't read. An empty specification gives null and an empty *error.
std::unique_ptr<Faults> parse_faults(const char* specification, std::string* error);

// What spyreSetFaults put in force, or null: nothing is wrong, and the usual ways are taken. Valid for good. Inline,
// for each record that is written or read asks.
SPYRE_API extern std::atomic<Faults*> faults_in_force;
inline Faults* current_faults() noexcept {
  return faults_in_force.load(std::memory_order_acquire);  // partner: spyreSetFaults' release
}

}  // namespace kineto_spyre::emulator
