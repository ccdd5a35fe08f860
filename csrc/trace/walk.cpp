#include "trace/walk.h"

#include <algorithm>

namespace kineto_spyre::trace {
namespace {

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

class Walk {
 public:
  Walk(const Input& input, const Options& options, ItemStore& items, Trace* trace)
      : next_(input.next_record),
        low_(static_cast<uint64_t>(std::max<int64_t>(1, options.window_begin - kDay))),
        high_(static_cast<uint64_t>(options.window_end + kDay)),
        items_(items),
        trace_(trace) {
    for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
      expected_[kind] = aiupti::size_of(static_cast<aiupti::Kind>(kind));
    }
  }

  void buffer(const capture::Buffer& buffer) {
    const size_t valid = std::min(buffer.valid, buffer.size);
    if (buffer.data == nullptr || valid == 0) return;
    begin_ = reinterpret_cast<uintptr_t>(buffer.data);
    end_ = begin_ + valid;

    AIUpti_Activity* record = nullptr;
    AIUpti_ResultTypes result = next_(buffer.data, valid, &record);
    if (result == AIUPTI_SUCCESS && reinterpret_cast<uintptr_t>(record) != begin_) {
      // The walker goes on where an earlier walk of a buffer at this address broke off. Run it out, and begin again.
      run_out(buffer.data, valid, record);
      record = nullptr;
      result = next_(buffer.data, valid, &record);
    }
    // A walker that never ends would hang the program: no record is smaller than 8 bytes.
    size_t steps = valid / 8 + 2;
    int errors = 0;
    AIUpti_Activity* previous = nullptr;
    while (result != AIUPTI_ERROR_MAX_LIMIT_REACHED && steps-- != 0) {
      if (result != AIUPTI_SUCCESS) {
        if (++errors == kErrors) break;
      } else {
        ++trace_->walked;
        if (record == nullptr || !within(record)) {
          refuse(Refusal::kMalformed);
        } else {
          if (previous != nullptr) accept(previous, reinterpret_cast<uintptr_t>(record));
          previous = record;
        }
      }
      result = next_(buffer.data, valid, &record);
    }
    if (previous != nullptr) accept(previous, end_);
    if (errors != 0 || result != AIUPTI_ERROR_MAX_LIMIT_REACHED) ++trace_->broken_walks;
  }

 private:
  static constexpr int kErrors = 16;

  void run_out(uint8_t* data, size_t valid, AIUpti_Activity* record) {
    for (size_t steps = valid / 8 + 2; steps != 0; --steps) {
      if (next_(data, valid, &record) == AIUPTI_ERROR_MAX_LIMIT_REACHED) return;
    }
  }

  bool within(const AIUpti_Activity* record) const {
    const auto at = reinterpret_cast<uintptr_t>(record);
    return at >= begin_ && at < end_ && aiupti::aligned(record);
  }

  void refuse(Refusal refusal) { ++trace_->refused[static_cast<size_t>(refusal)]; }

  // next: where the record after this one begins.
  void accept(AIUpti_Activity* record, uintptr_t next) {
    const auto at = reinterpret_cast<uintptr_t>(record);
    const aiupti::Kind kind = aiupti::kind_of(record);
    const size_t expected = expected_[static_cast<size_t>(kind)];
    if (expected == 0) return refuse(Refusal::kUnknownKind);
    // A walker may go backwards: then the distance says nothing, and the record has to fit into the buffer.
    const size_t room = next > at ? next - at : end_ - at;
    Sizes& sizes = trace_->sizes[static_cast<size_t>(kind)];
    if (room != expected) [[unlikely]] {
      if (next > at) sizes.seen = room;
      if (room < expected) return refuse(Refusal::kShorterRecord);
    } else if (sizes.seen == 0) {
      sizes.seen = room;
    }

    switch (kind) {
      case aiupti::Kind::kCompute:
        return check_times(record, kind, *aiupti::as<AIUpti_ActivityCompute>(record));
      case aiupti::Kind::kMemcpy:
      case aiupti::Kind::kMemcpy2:
        return check_times(record, kind, *aiupti::as<AIUpti_ActivityMemcpy>(record));
      case aiupti::Kind::kMemset:
        return check_times(record, kind, *aiupti::as<AIUpti_ActivityMemset>(record));
      case aiupti::Kind::kMemory:
        return check_times(record, kind, *aiupti::as<AIUpti_ActivityMemory>(record));
      default:
        return check_times(record, kind, *aiupti::as<AIUpti_ActivityAPI>(record));
    }
  }

  template <class R>
  void check_times(AIUpti_Activity* record, aiupti::Kind kind, const R& typed) {
    const uint64_t start = aiupti::start(typed);
    const uint64_t end = aiupti::end(typed);
    if (start == 0) return refuse(Refusal::kStartZero);
    if (end < start) return refuse(Refusal::kEndBeforeStart);
    if (start < low_ || end > high_) return refuse(Refusal::kUnreasonableTime);
    Item& item = items_.append();
    item.record = record;
    item.link = 0;
    item.kind = kind;
    item.flags = 0;
  }

  NextRecord next_;
  uint64_t low_, high_;
  ItemStore& items_;
  Trace* trace_;
  std::array<size_t, aiupti::kKinds> expected_{};
  uintptr_t begin_ = 0, end_ = 0;
};

}  // namespace

void walk(const Input& input, const Options& options, ItemStore& items, Trace* trace) {
  for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
    trace->sizes[kind].built = aiupti::size_of(static_cast<aiupti::Kind>(kind));
  }
  Walk walk(input, options, items, trace);
  for (const capture::Buffer& buffer : input.buffers) walk.buffer(buffer);
}

}  // namespace kineto_spyre::trace
