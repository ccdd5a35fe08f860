// How a thread writes records: one writer a thread, no lock, no allocation, no system call, no shared counter.
//
// Into what it writes is its source's affair: chunks of the library's own memory (staging.h) usually, buffers that the
// client lent if each thread is to have its own. Here both are a Buffer.
//
//   writer (one a thread)            sides (two a writer, each for one buffer)
//   +----------------------+         +--------------------------------------------------------------+
//   | side   owner's own ----------> | cursor  where the next record goes; odd while one is written |
//   | sides[2]             |         | end     no record ends beyond it; 0: not the owner's         |
//   | held[2]              |         +--------------------------------------------------------------+
//   +----------------------+           held: the side's buffer, records left
//
// What a record needs is in one line of the cache: with cold caches, a second line that the first one points to costs
// as much as the whole rest.
//
// The owner writes a record at the cursor of its side and moves the cursor. When the buffer is full it closes the side
// (end := 0), gives the buffer back (valid size: what was written), and opens the side again with the next buffer.
//
// A flush has to give back buffers that are half full, while their owners may sleep for hours or be in the middle of a
// record. So it closes the side under the owner, whose next record finds end = 0 and goes on in the other side, with
// another buffer. That is Dekker's question, asked once a record by the owner and once a flush by the flusher:
//
//   owner                                        flusher
//   cursor := cursor | 1                         e := exchange(end, 0); 0? -> nothing to take
//   (barrier)                                    (barrier)
//   end < cursor + size? -> slow path            c := cursor; odd? -> wait until it changes
//   write                                        give the buffer back, up to c
//   cursor := cursor + size (release)
//
// If both barriers are full, then either the owner sees the closed side, or the flusher sees the odd cursor and waits
// until that record is written: never neither. The owner asks millions of times and the flusher once, so the owner's
// barrier is the compiler's only (signal fence), and the flusher's is membarrier(2), which makes every running thread
// of the process pass a full barrier (one that isn't running passed one when it was switched out). Where the kernel has
// no membarrier (old kernels, some emulators), `end` is always 0: every record takes the slow path, which asks the same
// with sequentially consistent operations on `kept_end`.
//
// One flush runs at a time, it closes at most one side of a writer, and an owner changes sides only when a flush has
// closed the one that it was in: so the side that a flusher reads is never the one that the owner fills. (A flush that
// tried both sides could close the one that the owner has just fled to, and send it back into the one being read.) The
// owner never waits for the flusher; the flusher waits for the rest of one record, or of one change of buffers.
//
// A source that is closed (lend() refuses, from then on) and flushed holds no buffer: `changing` says that the owner is
// between taking its full buffer off and opening a side with the next one. A flush that sees it waits: afterwards the
// full buffer has been given back, and a new one is in a side that the flush will close. An owner whose change begins
// later asks a closed source, and is refused.
//
// When a thread ends, its writer, with its half-full buffer, is taken over by the next thread that needs one.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kineto_spyre::emulator {

// Where buffers come from and go to. Called on the writing thread (give_back: or the flushing one); must not lock if
// writing shall not, and must not flush. Whatever lend() refuses by is loaded and stored sequentially consistently.
struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t max_records = 0;  // 0: as many as fit
  void* chunk = nullptr;   // the source's own
};

struct BufferSource {
  bool (*lend)(Buffer* buffer);  // false: there is none
  void (*give_back)(const Buffer& buffer, size_t valid);
};

// A barrier in every thread of this process. barrier() may be called only if available().
struct ProcessBarrier {
#ifdef SYS_membarrier
  // <linux/membarrier.h>, which not every C library's headers come with.
  static constexpr int kPrivateExpedited = 1 << 3, kRegisterPrivateExpedited = 1 << 4;

  // Registers the process, too.
  static bool available() noexcept {
    return syscall(SYS_membarrier, kRegisterPrivateExpedited, 0, 0) == 0 &&
           syscall(SYS_membarrier, kPrivateExpedited, 0, 0) == 0;
  }
  static void barrier() noexcept { syscall(SYS_membarrier, kPrivateExpedited, 0, 0); }
#else
  static bool available() noexcept { return false; }
  static void barrier() noexcept {}
#endif
};

class alignas(64) RecordWriter {
 public:
  // asymmetric: whether the flusher passes a ProcessBarrier between hide() and take().
  constexpr RecordWriter(const BufferSource& source, bool asymmetric) : source_(source), asymmetric_(asymmetric) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Owner only. Calls fill(void*) for `bytes` bytes (an even number) in its buffer; records lie one behind the
  // other. False: there was no buffer, or it is too small for the record; fill was not called.
  template <typename Fill>
  bool write(size_t bytes, Fill&& fill) {
    Side& side = *side_;
    uintptr_t cursor = side.cursor.load(std::memory_order_relaxed);
    side.cursor.store(cursor | 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // partner: the barrier between hide() and take()
    if (cursor + bytes <= side.end.load(std::memory_order_acquire)) [[likely]] {  // partner: hide()'s exchange
      fill(reinterpret_cast<void*>(cursor));
      side.cursor.store(cursor + bytes, std::memory_order_release);  // partner: take()'s acquire
      return true;
    }
    side.cursor.store(cursor, std::memory_order_release);  // partner: take()'s acquire
    cursor = slow_begin(bytes);
    if (cursor == 0) return false;
    fill(reinterpret_cast<void*>(cursor));
    side_->cursor.store(cursor + bytes, std::memory_order_release);  // partner: take()'s acquire
    return true;
  }

  // Owner only. Gives the buffer back as it is; the next record goes into another.
  void close();

  // Flusher only, one at a time. hide() each writer, pass the barrier once, take() each: gives the buffer back.
  void hide();
  void take();

 private:
  struct Side {
    std::atomic<uintptr_t> cursor{0};    // the owner's; an address, or an address | 1
    std::atomic<uintptr_t> end{0};       // an address; kCounted: each record takes the slow path; 0: closed
    std::atomic<uintptr_t> kept_end{0};  // `end` where there is no membarrier
  };
  // The buffer of a side: written by the owner while the side is closed.
  struct Held {
    Buffer buffer;
    size_t records_left = 0;  // the owner's

    uintptr_t begin() const { return reinterpret_cast<uintptr_t>(buffer.data); }
  };
  static constexpr uintptr_t kCounted = 1;

  std::atomic<uintptr_t>& end_of(Side& side) { return asymmetric_ ? side.end : side.kept_end; }
  Held& held_by(const Side& side) { return held_[&side - sides_.data()]; }
  uintptr_t slow_begin(size_t bytes);

  std::array<Side, 2> sides_{};
  Side* side_ = &sides_[0];            // the owner's
  bool open_ = false;                  // the owner's: it opened the side and did not close it
  std::atomic<bool> changing_{false};  // sequentially consistent against hide() and what lend() asks
  std::array<Held, 2> held_{};
  Side* taken_ = nullptr;  // the flusher's: between hide() and take()
  const BufferSource source_;
  const bool asymmetric_;
};

// Returns where the record goes, with the side's cursor odd; 0 if there is no place.
inline uintptr_t RecordWriter::slow_begin(size_t bytes) {
  while (true) {
    Side& side = *side_;
    Held& held = held_by(side);
    std::atomic<uintptr_t>& end = end_of(side);
    if (open_) {
      const uintptr_t cursor = side.cursor.load(std::memory_order_relaxed);
      side.cursor.exchange(cursor | 1, std::memory_order_seq_cst);  // partner: take()'s load
      if (end.load(std::memory_order_seq_cst) != 0) {               // partner: hide()'s exchange
        const uintptr_t limit = held.begin() + held.buffer.size;
        if (cursor + bytes <= limit && held.records_left != 0) {
          if (held.records_left != SIZE_MAX) --held.records_left;
          return cursor;
        }
      }
      changing_.store(true, std::memory_order_seq_cst);  // partner: hide()'s loads
      const bool mine = end.exchange(0, std::memory_order_seq_cst) != 0;
      side.cursor.store(cursor, std::memory_order_release);  // partner: take()'s acquire
      open_ = false;
      if (mine) {
        source_.give_back(held.buffer, cursor - held.begin());
      } else {
        side_ = &sides_[side_ == &sides_[0]];  // a flusher has taken this one, and may still be reading it
        continue;
      }
    }
    Buffer buffer;
    changing_.store(true, std::memory_order_seq_cst);  // partner: hide()'s loads
    const bool had = source_.lend(&buffer);
    if (!had || buffer.size < bytes) {
      if (had) source_.give_back(buffer, 0);
      changing_.store(false, std::memory_order_release);  // partner: hide()'s loads
      return 0;
    }
    held.buffer = buffer;
    held.records_left = buffer.max_records == 0 ? SIZE_MAX : buffer.max_records;
    side.cursor.store(held.begin(), std::memory_order_relaxed);
    end.store(buffer.max_records == 0 ? held.begin() + buffer.size : kCounted,
              std::memory_order_release);               // partner: hide()'s exchange
    changing_.store(false, std::memory_order_release);  // partner: hide()'s loads
    open_ = true;
  }
}

inline void RecordWriter::close() {
  if (!open_) return;
  Side& side = *side_;
  open_ = false;
  changing_.store(true, std::memory_order_seq_cst);                // partner: hide()'s loads
  if (end_of(side).exchange(0, std::memory_order_seq_cst) != 0) {  // partner: hide()'s exchange
    const uintptr_t cursor = side.cursor.load(std::memory_order_relaxed);
    const Held& held = held_by(side);
    source_.give_back(held.buffer, cursor - held.begin());
  } else {
    side_ = &sides_[side_ == &sides_[0]];
  }
  changing_.store(false, std::memory_order_release);  // partner: hide()'s loads
}

inline void RecordWriter::hide() {
  while (changing_.load(std::memory_order_seq_cst)) sched_yield();
  for (Side& side : sides_) {
    if (end_of(side).exchange(0, std::memory_order_seq_cst) != 0) {  // partner: the owner's release when it opened it
      taken_ = &side;
      break;
    }
  }
  // An owner that closed its side just before us gives the buffer back now.
  while (changing_.load(std::memory_order_seq_cst)) sched_yield();
}

inline void RecordWriter::take() {
  if (taken_ == nullptr) return;
  Side& side = *taken_;
  taken_ = nullptr;
  uintptr_t cursor = side.cursor.load(std::memory_order_seq_cst);  // partner: the owner's odd stores
  while (cursor % 2 != 0) {
    sched_yield();
    cursor = side.cursor.load(std::memory_order_acquire);  // partner: the owner's release
  }
  const Held& held = held_by(side);
  source_.give_back(held.buffer, cursor - held.begin());
}

}  // namespace kineto_spyre::emulator
