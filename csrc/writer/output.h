// Memory between a writer and its sink: room for one event at a time, handed on a mebibyte at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "writer/writer.h"

namespace kineto_spyre::writer {

class Output {
 public:
  explicit Output(Sink* sink) : sink_(*sink), memory_(kBytes) {}

  // Where at most so many bytes may be written; advance() tells how many were.
  char* room(size_t bytes) {
    if (used_ + bytes > memory_.size()) flush();
    if (bytes > memory_.size()) memory_.resize(bytes);
    return memory_.data() + used_;
  }
  void advance(const char* end) { used_ = static_cast<size_t>(end - memory_.data()); }
  void text(std::string_view text) {
    char* at = room(text.size());
    text.copy(at, text.size());
    advance(at + text.size());
  }
  void flush() {
    if (used_ != 0) sink_.write(memory_.data(), used_);
    used_ = 0;
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  Sink& sink_;
  std::vector<char> memory_;
  size_t used_ = 0;
};

}  // namespace kineto_spyre::writer
