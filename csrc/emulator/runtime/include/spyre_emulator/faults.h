// Faults on demand: what spyreSetFaults, KINETO_SPYRE_FAULTS and kineto_spyre.emulator.faults() take.
//
// A specification is a comma-separated list of key=value. Durations are a number with ns, us, ms or s (none: ns).
// "every N" means the N-th, the 2N-th and so on, counted from when the faults were set. Where D: is allowed, D is a
// device and the fault is for it alone; without it, for all.
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
// Buffers
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
// Devices
//   device_lost=[D:]N            after N more pieces of work the device is lost: whatever is asked of it fails
//   hang=[D:]N                   the N-th kernel launched from now on never ends
//   timeout=DURATION             how long a wait for a kernel that never ends lasts before it fails (10 s)
// Not a fault, but on request
//   prepare=1                    compute records with operation kind PREPARE as well, before those of the execution
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

// One specification in force. Its settings never change; a later one takes its place and this one stays, as some thread
// may still read it (a few hundred bytes each).
struct Faults {
  std::array<DeviceClock, kMaxDevices> clocks{};
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
  uint64_t timeout_ns = 10'000'000'000;
  bool prepare = false;
  const Faults* before = nullptr;  // those that were in force earlier
};

// Null, with a sentence in *error, for what it can't read. An empty specification gives null and an empty *error.
std::unique_ptr<Faults> parse_faults(const char* specification, std::string* error);

// What spyreSetFaults put in force, or null: nothing is wrong, and the usual ways are taken. Valid for good. Inline,
// for each record that is written or walked asks.
SPYRE_API extern std::atomic<Faults*> faults_in_force;
inline Faults* current_faults() noexcept {
  return faults_in_force.load(std::memory_order_acquire);  // partner: spyreSetFaults' release
}

}  // namespace kineto_spyre::emulator
