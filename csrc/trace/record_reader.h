// From a buffer that came back to its sound records.
//
// In: a buffer, and the library's own iterator. Out: a call of the sink for each record that has a known kind, is long
// enough, lies within its buffer beyond all before it, and has times of reason; counts in Trace for the others. The
// sink is a template parameter, because what is done to a record must be compiled into the loop.
//
//   sink.template take<R, kind>(AIUpti_Activity* record, size_t size)
//
// How an iterator behaves is known in part only. Proven: AIUPTI_SUCCESS (0) means that there was a record; any other
// result ends the buffer. The library keeps the place of an iteration in state of its own, a buffer at a time, and
// clears it only when the iteration ended. So:
//
//   first record not at the buffer's begin   an earlier iteration of a buffer here broke off: it is run to its end, and
//                                            this one begins again
//   not success, the records fill the buffer the end
//   not success, there is room for more      one further step. A record further on: the iterator had an error, and goes
//                                            on. A record that was there before: that was the end, and what this step
//                                            began is run to its end. Not success: the end. The read is counted as
//                                            unfinished, except where it began again
//   success, without an end                  stopped after as many steps as there can be records, and counted
//
// Size. A record reaches to the next one; the last of a buffer is as long as the others of its kind in this buffer, or
// reaches to the end. Longer records than this build's are read as far as it knows them; shorter ones, if they hold
// what every release has (aiupti::kLeastSize).
//
// Owns nothing. A reader is used for one trace, by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "aiupti/records.h"
#include "trace/trace.h"

namespace kineto_spyre::trace {

// Looks at a buffer's first record without the iterator, whose place must not be touched. Null if there is none. What
// is told from it is a guess: it may be no record at all.
const AIUpti_Activity* peek(const capture::Buffer& buffer);
bool begins_with_host_call(const capture::Buffer& buffer);
// Buffers mostly hold records of one size: of the size of their first.
size_t expected_records(const capture::Buffer& buffer);
size_t expected_calls(std::span<const capture::Buffer> buffers);
uint64_t least_correlation(std::span<const capture::Buffer> buffers);

class RecordReader {
 public:
  RecordReader(NextRecord next, const Options& options, Trace* trace);

  template <class Sink>
  void read(const capture::Buffer& buffer, Sink& sink);

  bool saw(aiupti::Kind kind) const { return (kinds_seen_ >> static_cast<unsigned>(kind) & 1) != 0; }
  // After all buffers: sizes of kinds that never differed from this build's.
  void finish_sizes();

 private:
  static constexpr size_t kAhead = 16;  // records that are on their way from memory

  // The first step; the iterator stands at the buffer's begin after it, if it can be made to.
  AIUpti_ResultTypes begin(const capture::Buffer& buffer, size_t valid, AIUpti_Activity** record);
  // Steps until the iteration has ended; takes nothing.
  void run_out(uint8_t* data, size_t valid);
  // After a result that is not success: true, with the next record, if the iteration goes on.
  bool goes_on(uint8_t* data, size_t valid, const AIUpti_Activity* last, AIUpti_Activity** record);

  // Forward only: records that share memory would be corrected through one another.
  bool lies_ahead(const AIUpti_Activity* record) const {
    return reinterpret_cast<uintptr_t>(record) - least_ < end_ - least_ && aiupti::aligned(record);
  }
  // As the steps in this buffer told; 0 if they told nothing about its kind.
  size_t known_size(const AIUpti_Activity* record) const;
  // Of the last record of a buffer: it need not reach to the end.
  size_t size_of_last(const AIUpti_Activity* record) const;
  // Whether nothing fits behind it.
  bool fills_the_buffer(const AIUpti_Activity* last) const;

  template <class Sink>
  [[gnu::always_inline]] void accept(AIUpti_Activity* record, size_t size, Sink& sink);
  template <class R, aiupti::Kind kind, class Sink>
  [[gnu::noinline]] void check(AIUpti_Activity* record, size_t size, Sink& sink);
  // What is unusual about a record's size. False if it is too short to be read.
  bool check_size(aiupti::Kind kind, size_t size);

  NextRecord next_;
  Trace* trace_;
  uint64_t low_, high_;                         // times of reason
  uintptr_t least_ = 0, end_ = 0;               // of the buffer that is read: where its next record may begin
  std::array<size_t, aiupti::kKinds> sizes_{};  // in this buffer, as its steps tell; 0: not told
  uint32_t kinds_here_ = 0;                     // in this buffer, one bit a kind
  uint32_t kinds_seen_ = 0;
};

template <class Sink>
void RecordReader::read(const capture::Buffer& buffer, Sink& sink) {
  const size_t valid = std::min(buffer.valid, buffer.size);
  if (buffer.data == nullptr || valid == 0) return;
  AIUpti_Activity* record = nullptr;
  AIUpti_ResultTypes result = begin(buffer, valid, &record);
  // An iterator that never ends would hang the program: no record is smaller than 8 bytes.
  size_t steps = valid / 8 + 2;
  AIUpti_Activity* previous = nullptr;
  uint64_t records_read = 0;
  for (; steps != 0; --steps) {
    if (result != AIUPTI_SUCCESS) [[unlikely]] {
      if (!goes_on(buffer.data, valid, previous, &record)) break;
    }
    ++records_read;
    if (!lies_ahead(record)) [[unlikely]] {
      trace_->count_invalid(InvalidReason::kMalformed);
    } else {
      if (previous != nullptr) {
        accept(previous, reinterpret_cast<uintptr_t>(record) - reinterpret_cast<uintptr_t>(previous), sink);
      }
      previous = record;
      least_ = reinterpret_cast<uintptr_t>(record) + 1;
    }
    result = next_(buffer.data, valid, &record);
  }
  if (steps == 0) ++trace_->unfinished_reads;
  if (previous != nullptr) accept(previous, size_of_last(previous), sink);
  kinds_seen_ |= kinds_here_;
  trace_->records_read += records_read;
}

template <class Sink>
void RecordReader::accept(AIUpti_Activity* record, size_t size, Sink& sink) {
  using aiupti::Kind;
  switch (aiupti::kind_of(record)) {
    case Kind::kCompute:
      return check<AIUpti_ActivityCompute, Kind::kCompute>(record, size, sink);
    case Kind::kMemcpy:
      return check<AIUpti_ActivityMemcpy, Kind::kMemcpy>(record, size, sink);
    case Kind::kMemcpy2:
      return check<AIUpti_ActivityMemcpy, Kind::kMemcpy2>(record, size, sink);
    case Kind::kMemset:
      return check<AIUpti_ActivityMemset, Kind::kMemset>(record, size, sink);
    case Kind::kMemory:
      return check<AIUpti_ActivityMemory, Kind::kMemory>(record, size, sink);
    case Kind::kRuntime:
      return check<AIUpti_ActivityAPI, Kind::kRuntime>(record, size, sink);
    case Kind::kDriver:
      return check<AIUpti_ActivityAPI, Kind::kDriver>(record, size, sink);
    case Kind::kInvalid:
    case Kind::kOther:
      return trace_->count_invalid(InvalidReason::kUnknownKind);
  }
}

template <class R, aiupti::Kind kind, class Sink>
void RecordReader::check(AIUpti_Activity* record, size_t size, Sink& sink) {
  kinds_here_ |= 1U << static_cast<unsigned>(kind);
  if (size != sizeof(R)) [[unlikely]] {
    if (!check_size(kind, size)) return trace_->count_invalid(InvalidReason::kShorterRecord);
  }
  // The next ones are far enough apart to be fetched one by one, across pages too. What is read of a record may lie in
  // two lines of the cache, and each one that is missed costs more than all else that is done to the record.
  const char* const ahead = reinterpret_cast<const char*>(record) + kAhead * sizeof(R);
  __builtin_prefetch(ahead);
  __builtin_prefetch(ahead + offsetof(R, end));
  const R& typed = *aiupti::as<R>(record);
  const uint64_t start = aiupti::start(typed);
  const uint64_t end = aiupti::end(typed);
  if (start < low_ || end > high_ || end < start) [[unlikely]] {
    return trace_->count_invalid(start == 0    ? InvalidReason::kStartZero
                                 : end < start ? InvalidReason::kEndBeforeStart
                                               : InvalidReason::kUnreasonableTime);
  }
  sink.template take<R, kind>(record, size);
}

}  // namespace kineto_spyre::trace
