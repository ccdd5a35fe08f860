#include "trace/record_reader.h"

#include <algorithm>

namespace kineto_spyre::trace {
namespace {

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

}  // namespace

const AIUpti_Activity* peek(const capture::Buffer& buffer) {
  const auto* record = reinterpret_cast<const AIUpti_Activity*>(buffer.data);
  const size_t valid = std::min(buffer.valid, buffer.size);
  if (record == nullptr || valid == 0 || !aiupti::aligned(record)) return nullptr;
  return aiupti::size_of(aiupti::kind_of(record)) <= valid ? record : nullptr;
}

bool begins_with_host_call(const capture::Buffer& buffer) {
  const AIUpti_Activity* record = peek(buffer);
  if (record == nullptr) return false;
  const aiupti::Kind kind = aiupti::kind_of(record);
  return kind == aiupti::Kind::kRuntime || kind == aiupti::Kind::kDriver;
}

size_t expected_records(const capture::Buffer& buffer) {
  const AIUpti_Activity* record = peek(buffer);
  const size_t size = record != nullptr ? aiupti::size_of(aiupti::kind_of(record)) : 0;
  return size != 0 ? std::min(buffer.valid, buffer.size) / size : 0;
}

size_t expected_calls(std::span<const capture::Buffer> buffers) {
  size_t calls = 0;
  for (const capture::Buffer& buffer : buffers) calls += begins_with_host_call(buffer) ? expected_records(buffer) : 0;
  return calls;
}

uint64_t least_correlation(std::span<const capture::Buffer> buffers) {
  uint64_t least = UINT64_MAX;
  for (const capture::Buffer& buffer : buffers) {
    const AIUpti_Activity* record = peek(buffer);
    const uint64_t id = record != nullptr ? aiupti::correlation_id(record) : 0;
    if (id != 0) least = std::min(least, id);
  }
  return least;
}

RecordReader::RecordReader(NextRecord next, const Options& options, Trace* trace)
    : next_(next),
      trace_(trace),
      low_(static_cast<uint64_t>(std::max<int64_t>(1, options.window_begin - kDay))),
      high_(static_cast<uint64_t>(options.window_end + kDay)) {
  for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
    trace->sizes[kind].built = aiupti::size_of(static_cast<aiupti::Kind>(kind));
  }
}

void RecordReader::finish_sizes() {
  for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
    RecordSizes& sizes = trace_->sizes[kind];
    if (sizes.seen == 0 && saw(static_cast<aiupti::Kind>(kind))) sizes.seen = sizes.built;
  }
}

AIUpti_ResultTypes RecordReader::begin(const capture::Buffer& buffer, size_t valid, AIUpti_Activity** record) {
  least_ = reinterpret_cast<uintptr_t>(buffer.data);
  end_ = least_ + valid;
  sizes_.fill(0);
  kinds_here_ = 0;
  const AIUpti_ResultTypes result = next_(buffer.data, valid, record);
  if (result != AIUPTI_SUCCESS || reinterpret_cast<uintptr_t>(*record) == least_) return result;
  run_out(buffer.data, valid);
  *record = nullptr;
  return next_(buffer.data, valid, record);
}

void RecordReader::run_out(uint8_t* data, size_t valid) {
  AIUpti_Activity* record = nullptr;
  for (size_t steps = valid / 8 + 2; steps != 0; --steps) {
    if (next_(data, valid, &record) != AIUPTI_SUCCESS) return;
  }
}

size_t RecordReader::known_size(const AIUpti_Activity* record) const {
  const auto kind = static_cast<size_t>(aiupti::kind_of(record));
  if (sizes_[kind] != 0) return sizes_[kind];
  return (kinds_here_ >> kind & 1) != 0 ? trace_->sizes[kind].built : 0;
}

size_t RecordReader::size_of_last(const AIUpti_Activity* record) const {
  const size_t room = end_ - reinterpret_cast<uintptr_t>(record);
  const size_t known = known_size(record);
  return known != 0 ? std::min(room, known) : room;
}

bool RecordReader::fills_the_buffer(const AIUpti_Activity* last) const {
  const auto kind = static_cast<size_t>(aiupti::kind_of(last));
  const size_t room = end_ - reinterpret_cast<uintptr_t>(last);
  const size_t known = known_size(last);
  const size_t size = known != 0 ? known : std::max(trace_->sizes[kind].built, trace_->sizes[kind].seen);
  return size != 0 && room < size + aiupti::kAlignment;
}

bool RecordReader::goes_on(uint8_t* data, size_t valid, const AIUpti_Activity* last, AIUpti_Activity** record) {
  if (last != nullptr && fills_the_buffer(last)) return false;
  if (next_(data, valid, record) == AIUPTI_SUCCESS) {
    if (!lies_ahead(*record)) {  // the iteration had ended, and this step began it again
      run_out(data, valid);
      return false;
    }
    ++trace_->unfinished_reads;
    return true;
  }
  ++trace_->unfinished_reads;
  return false;
}

bool RecordReader::check_size(aiupti::Kind kind, size_t size) {
  trace_->sizes[static_cast<size_t>(kind)].seen = size;
  sizes_[static_cast<size_t>(kind)] = size;
  return size >= aiupti::least_size_of(kind);
}

}  // namespace kineto_spyre::trace
