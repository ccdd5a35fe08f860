// How records get into lent buffers: one writer a thread, no lock, no allocation, no system call, no shared counter.
//
//   writer (one a thread)                       slots (two a writer)
//   +--------------------------------+          +---------------------------------------+
//   | turn      odd while it writes  |   .----->| cursor  where the next record goes    |
//   | current ------------------------+--'      | end     no record begins after this   |
//   | slots[2]                       |          | begin, size, records left             |
//   +--------------------------------+          +---------------------------------------+
//
// A slot holds one lent buffer. The slot that `current` points to is the owner thread's: it writes records at the
// cursor. Full, the owner takes it off, gives the buffer back (valid size: what was written) and asks for the next.
//
// A flush has to give back buffers that are half full, while their owners may sleep for hours or be in the middle of a
// record. So it takes the slot away from under the owner, whose next record finds `current` null and goes on in the
// other slot, with another buffer. It is Dekker's question, asked once a record by the owner and once a flush by the
// flusher:
//
//   owner                                       flusher
//   turn := odd                                 slot := exchange(current, null)
//   (barrier)                                   (barrier)
//   slot := current; null? -> slow way          t := turn; odd? -> wait until turn != t
//   write, cursor += size                       read slot's cursor, give the buffer back
//   turn := even (release)
//
// If both barriers are full, then either the owner sees the null, or the flusher sees the odd turn and waits until that
// record is written: never neither. The owner asks millions of times and the flusher once, so the owner's barrier is
// the compiler's only (signal fence), and the flusher's is membarrier(2), which makes every running thread of the
// process pass a full barrier (and a thread that isn't running passed one when it was switched out). Where the kernel
// has no membarrier (old kernels, emulators), `current` is always null: every record takes the slow way, which does
// the same with sequentially consistent operations on `kept`.
//
// An owner that finds its slot taken goes on in the other one, and one flush runs at a time: the slot that a flusher
// reads is never the one that the owner fills. The owner never waits for the flusher; the flusher waits for the rest of
// one record at most.
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

// Where buffers come from and go to. Called on the writing thread; must not lock if writing shall not.
struct BufferSource {
  // Sets a buffer, its size, and how many records it may take (0: as many as fit). False: there is none.
  bool (*lend)(uint8_t** buffer, size_t* size, size_t* max_records);
  void (*give_back)(uint8_t* buffer, size_t size, size_t valid);
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
  RecordWriter(const BufferSource& source, bool asymmetric) : source_(source), asymmetric_(asymmetric) {}
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Owner only. Calls fill(void*) for `bytes` bytes in a lent buffer, 8-byte aligned if all records have sizes that are
  // multiples of 8. False: there was no buffer, or it is too small for the record; fill was not called.
  template <typename Fill>
  bool write(size_t bytes, Fill&& fill) {
    const uint64_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);    // partner: the barrier in take()
    Slot* slot = current_.load(std::memory_order_acquire);  // partner: install()'s release
    if (slot != nullptr && static_cast<size_t>(slot->end - slot->cursor) >= bytes) [[likely]] {
      fill(static_cast<void*>(slot->cursor));
      slot->cursor += bytes;
      turn_.store(turn + 2, std::memory_order_release);  // partner: take()'s acquire
      return true;
    }
    turn_.store(turn + 2, std::memory_order_release);
    uint8_t* place = slow_begin(bytes);
    if (place == nullptr) return false;
    fill(static_cast<void*>(place));
    turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // partner: take()'s acquire
    return true;
  }

  // Flusher only, one at a time, after hide() and a barrier: gives the half-full buffer back.
  void hide() { taken_ = (asymmetric_ ? current_ : kept_).exchange(nullptr, std::memory_order_seq_cst); }
  void take();

  // Forgets its buffers without giving them back: for the child of a fork, where only the calling thread lives.
  void forget();

 private:
  struct Slot {
    uint8_t* cursor = nullptr;
    uint8_t* end = nullptr;  // cursor + space, or cursor if the slow way has to count records
    uint8_t* begin = nullptr;
    size_t size = 0;
    size_t records_left = 0;  // 0: not counted
  };

  std::atomic<Slot*>& owned() { return asymmetric_ ? current_ : kept_; }
  uint8_t* slow_begin(size_t bytes);

  std::atomic<uint64_t> turn_{0};
  std::atomic<Slot*> current_{nullptr};
  std::array<Slot, 2> slots_{};
  uint32_t active_ = 0;   // owner: the slot that it fills, or will fill next
  bool filling_ = false;  // owner: it did not take slots_[active_] off itself
  const BufferSource source_;
  const bool asymmetric_;
  std::atomic<Slot*> kept_{nullptr};  // `current` where there is no membarrier
  Slot* taken_ = nullptr;             // the flusher's
};

inline uint8_t* RecordWriter::slow_begin(size_t bytes) {
  while (true) {
    turn_.fetch_add(1, std::memory_order_seq_cst);  // odd. Partner: hide()'s exchange, take()'s load
    if (Slot* slot = owned().load(std::memory_order_seq_cst)) {
      const auto space = static_cast<size_t>(slot->begin + slot->size - slot->cursor);
      if (space >= bytes && slot->records_left != 0) {
        uint8_t* place = slot->cursor;
        slot->cursor += bytes;
        if (slot->records_left != SIZE_MAX) {
          --slot->records_left;
          slot->end = slot->cursor;
        }
        return place;  // still odd: the caller writes, then makes it even
      }
      slot = owned().exchange(nullptr, std::memory_order_seq_cst);
      turn_.fetch_add(1, std::memory_order_release);
      if (slot != nullptr) {
        filling_ = false;
        source_.give_back(slot->begin, slot->size, static_cast<size_t>(slot->cursor - slot->begin));
      }
    } else {
      turn_.fetch_add(1, std::memory_order_release);
    }
    if (filling_) {
      active_ ^= 1;  // a flusher has taken the slot, and may still be reading it
      filling_ = false;
    }
    uint8_t* buffer = nullptr;
    size_t size = 0, max_records = 0;
    if (!source_.lend(&buffer, &size, &max_records)) return nullptr;
    if (size < bytes) {
      source_.give_back(buffer, size, 0);
      return nullptr;
    }
    Slot& slot = slots_[active_];
    slot.begin = slot.cursor = buffer;
    slot.size = size;
    slot.records_left = max_records == 0 ? SIZE_MAX : max_records;
    slot.end = max_records == 0 ? buffer + size : buffer;
    filling_ = true;
    owned().store(&slot, std::memory_order_release);  // partner: write()'s acquire
  }
}

inline void RecordWriter::take() {
  if (taken_ == nullptr) return;
  const uint64_t turn = turn_.load(std::memory_order_seq_cst);  // partner: the owner's release, and its odd store
  if (turn % 2 != 0) {
    while (turn_.load(std::memory_order_acquire) == turn) sched_yield();
  }
  source_.give_back(taken_->begin, taken_->size, static_cast<size_t>(taken_->cursor - taken_->begin));
  taken_ = nullptr;
}

inline void RecordWriter::forget() {
  turn_.store(0, std::memory_order_relaxed);
  owned().store(nullptr, std::memory_order_relaxed);
  filling_ = false;
  taken_ = nullptr;
}

}  // namespace kineto_spyre::emulator
