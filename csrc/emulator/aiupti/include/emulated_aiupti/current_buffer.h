// The one buffer of the client that records go into.
//
//   none -> append(), or open(), requests one -> current -> it is full, or close() -> completed -> none
//
// Records are copied in whole, in the order in which they were staged. So there is at most one buffer out, and buffers
// come back in the order in which they were lent. Who calls holds a lock: this knows no threads.
//
// A record that finds no buffer is counted as dropped, and no other way out exists: what was appended is what was
// completed, what lies in the current buffer, what append() called dropped, and what remove() took out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulated_aiupti/record_writer.h"
#include "emulated_aiupti/shape.h"

namespace kineto_spyre::emulator {

class CurrentBuffer {
 public:
  struct Client {
    bool (*request)(Buffer* buffer);  // false: there is none
    void (*complete)(const Buffer& buffer, size_t valid, Shape shape);
    SizeOf size_of;
  };

  explicit constexpr CurrentBuffer(const Client& client) : client_(client) {}
  CurrentBuffer(const CurrentBuffer&) = delete;
  CurrentBuffer& operator=(const CurrentBuffer&) = delete;

  // Whole records, all of one shape. Returns how many were dropped.
  uint64_t append(const uint8_t* records, size_t bytes, Shape shape);
  // Completes the current buffer, if there is one.
  void close();
  // Requests one, if there is none. False: the client gave none.
  bool open();
  // Takes out the records of a kind that were not completed.
  void remove(uint8_t kind);

 private:
  size_t fitting(const uint8_t* records, size_t bytes, Shape shape) const;

  const Client client_;
  Buffer buffer_{};
  size_t used_ = 0;
  size_t records_left_ = 0;
  Shape shape_{};
};

// How many records there are in so many bytes.
uint64_t count_records(const uint8_t* records, size_t bytes, Shape shape, SizeOf size_of);
// Moves records together so that those of the kind are gone; returns how many bytes are left.
size_t remove_kind(uint8_t* records, size_t bytes, Shape shape, SizeOf size_of, uint8_t kind);

}  // namespace kineto_spyre::emulator
