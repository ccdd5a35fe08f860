// In place of csrc/capture/capture.h, for the model checker: what csrc/capture/pool.h needs of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kineto_spyre::capture {

struct Buffer {
  uint8_t* data;
  size_t size;
  size_t valid;
  // Member by member: the checker can't follow a memset().
  Buffer(uint8_t* data, size_t size, size_t valid) : data(data), size(size), valid(valid) {}
};

}  // namespace kineto_spyre::capture
