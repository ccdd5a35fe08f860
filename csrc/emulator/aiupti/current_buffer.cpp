#include "emulated_aiupti/current_buffer.h"

#include <cstring>

namespace kineto_spyre::emulator {

uint64_t count_records(const uint8_t* records, size_t bytes, Shape shape, SizeOf size_of) {
  uint64_t count = 0;
  for (size_t at = 0; at < bytes; at += size_of(records + at, shape)) ++count;
  return count;
}

size_t remove_kind(uint8_t* records, size_t bytes, Shape shape, SizeOf size_of, uint8_t kind) {
  size_t kept = 0;
  for (size_t at = 0; at < bytes;) {
    const size_t size = size_of(records + at, shape);
    if (records[at] != kind) {
      std::memmove(records + kept, records + at, size);
      kept += size;
    }
    at += size;
  }
  return kept;
}

uint64_t CurrentBuffer::append(const uint8_t* records, size_t bytes, Shape shape) {
  uint64_t dropped = 0;
  while (bytes != 0) {
    if (buffer_.data != nullptr && shape != shape_ && used_ != 0) close();  // a buffer has one shape
    if (!open()) return dropped + count_records(records, bytes, shape, client_.size_of);
    shape_ = shape;
    size_t taken = fitting(records, bytes, shape);
    if (taken != 0) {
      std::memcpy(buffer_.data + used_, records, taken);
      used_ += taken;
      if (records_left_ != SIZE_MAX) records_left_ -= count_records(records, taken, shape, client_.size_of);
    } else if (used_ == 0) {  // the whole buffer is too small for it
      taken = client_.size_of(records, shape);
      ++dropped;
    }
    records += taken;
    bytes -= taken;
    if (bytes != 0 || used_ == buffer_.size || records_left_ == 0) close();
  }
  return dropped;
}

void CurrentBuffer::close() {
  if (buffer_.data == nullptr) return;
  const Buffer full = buffer_;
  buffer_ = {};
  client_.complete(full, used_, shape_);
}

void CurrentBuffer::remove(uint8_t kind) {
  if (buffer_.data == nullptr) return;
  used_ = remove_kind(buffer_.data, used_, shape_, client_.size_of, kind);
}

bool CurrentBuffer::open() {
  if (buffer_.data != nullptr) return true;
  Buffer buffer;
  if (!client_.request(&buffer)) return false;
  buffer_ = buffer;
  used_ = 0;
  records_left_ = buffer.max_records == 0 ? SIZE_MAX : buffer.max_records;
  shape_ = {};
  return true;
}

// The bytes of as many of the records as the current buffer has room for.
size_t CurrentBuffer::fitting(const uint8_t* records, size_t bytes, Shape shape) const {
  const size_t room = buffer_.size - used_;
  if (bytes <= room && records_left_ == SIZE_MAX) return bytes;
  size_t fit = 0;
  for (size_t count = 0; fit < bytes && count < records_left_; ++count) {
    const size_t size = client_.size_of(records + fit, shape);
    if (fit + size > room) break;
    fit += size;
  }
  return fit;
}

}  // namespace kineto_spyre::emulator
