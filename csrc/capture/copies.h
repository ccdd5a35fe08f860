// Copies of buffers, and the memory that they are in. Owner: whoever has the result that they go into.
#pragma once

#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture/prefaulted_region.h"

namespace kineto_spyre::capture {

struct Copies {
  std::vector<PrefaultedRegion> memory;
  std::vector<Buffer> buffers;
  size_t bytes = 0;

  // Throws std::bad_alloc; nothing has changed then.
  void add(const Buffer& buffer) {
    memory.reserve(memory.size() + 1);
    buffers.reserve(buffers.size() + 1);
    PrefaultedRegion region;
    PrefaultedRegion::Options options;
    options.sure = buffer.valid;
    if (!region.map(buffer.valid, options)) throw std::bad_alloc();
    region.have(buffer.valid);
    std::memcpy(region.data(), buffer.data, buffer.valid);
    buffers.push_back({region.data(), buffer.valid, buffer.valid});
    memory.push_back(std::move(region));
    bytes += buffer.valid;
  }
};

}  // namespace kineto_spyre::capture
