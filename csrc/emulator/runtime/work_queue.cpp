// A stream's queue, and the bytes that a copy or a fill moves.
#include <cstring>

#include "machine.h"

namespace kineto_spyre::emulator {

void WorkItem::run() const {
  if (function != nullptr) {
    function(argument);
  } else if (work == WorkKind::kCopy) {
    std::memmove(destination, source, bytes);
  } else {
    std::memset(destination, value, bytes);
  }
}

void WorkQueue::push(const WorkItem& item) {
  if (count_ == slots_.size()) {
    std::vector<WorkItem> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = at(i);
    slots_ = std::move(larger);
    head_ = 0;
  }
  slots_[(head_ + count_) & (slots_.size() - 1)] = item;
  ++count_;
}

void WorkQueue::pop() {
  delete slots_[head_].point;
  head_ = (head_ + 1) & (slots_.size() - 1);
  --count_;
}

void WorkQueue::truncate(size_t size) {
  while (count_ > size) delete at(--count_).point;
}

}  // namespace kineto_spyre::emulator
