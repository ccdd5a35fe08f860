// What both writers ask of a document: its slices by track, in an order in which they nest, and its arrows.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "writer/writer.h"

namespace kineto_spyre::writer {

// A slice of a track: one of these is set.
struct Slice {
  int64_t begin, end;
  const trace::Event* event = nullptr;
  const HostSlice* host = nullptr;
  const trace::DeviceRange* range = nullptr;
};

// Slices that stand on one line of the file.
struct Line {
  bool host;
  int64_t process;  // a process id, or a device's index
  int64_t tid;
  int64_t sort;
  std::string name;           // "" where a thread has none
  std::vector<Slice> slices;  // by begin; of the same begin the longer first
};

// The op that an event was launched in; null if there is none.
const HostSlice* op_of(const Document& document, const trace::Event& event);

std::vector<Line> lines_of(const Document& document);

// How many pieces of work each launch has in the trace.
class Arrows {
 public:
  explicit Arrows(const Document& document);
  uint32_t of(uint32_t id) const {
    if (!dense_.empty()) return id - least_ < dense_.size() ? dense_[id - least_] : 0;
    const auto at = sparse_.find(id);
    return at != sparse_.end() ? at->second : 0;
  }
  uint64_t total() const { return total_; }

 private:
  uint32_t least_ = 0;
  std::vector<uint16_t> dense_;
  std::unordered_map<uint32_t, uint32_t> sparse_;
  uint64_t total_ = 0;
};

}  // namespace kineto_spyre::writer
