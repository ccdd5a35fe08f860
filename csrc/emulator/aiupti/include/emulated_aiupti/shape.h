// By how much records differ in size from this build's: the same for all records of a chunk, and of a lent buffer. Not
// zero only if a fault asks for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kineto_spyre::emulator {

struct Shape {
  int16_t compute_extra = 0;
  int16_t copy_extra = 0;
  int16_t call_extra = 0;
  bool operator==(const Shape&) const = default;
};

// Bytes from the record's begin to the next one's; 0 if its kind is not known.
using SizeOf = size_t (*)(const uint8_t* record, Shape shape);

}  // namespace kineto_spyre::emulator
