#include "trace/process_ids.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "trace/record_reader.h"

namespace kineto_spyre::trace {
namespace {

// What the reader calls for each sound record.
struct Seen {
  const Input& input;
  uint32_t process_id;
  bool any_of_ours = false;
  std::optional<uint32_t> other;
  bool several_others = false;
  bool on_a_thread_of_ours = false;

  template <class R, aiupti::Kind kind>
  void take(AIUpti_Activity* record, size_t) {
    if constexpr (std::is_same_v<R, AIUpti_ActivityAPI>) {
      const R& call = *aiupti::as<R>(record);
      const uint32_t process = aiupti::process_id(call);
      if (process == process_id || process == 0) {
        any_of_ours = true;
        return;
      }
      several_others = several_others || (other && *other != process);
      other = process;
      if (on_a_thread_of_ours) return;
      const int64_t tid = aiupti::thread_id(call).value_or(0);
      on_a_thread_of_ours = tid != 0 && std::ranges::any_of(input.threads, [&](const capture::ThreadOpEvents& thread) {
                              return thread.tid == tid && !thread.events.empty();
                            });
    }
  }
};

constexpr size_t kMostStepped = 10'000;

// A buffer's first host call, by the sizes that this build expects and without the iterator, whose place must not be
// touched. Null if none is found; *astray: because the records have other sizes.
const AIUpti_ActivityAPI* first_host_call(const capture::Buffer& buffer, bool* astray) {
  const size_t valid = std::min(buffer.valid, buffer.size);
  size_t at = 0;
  for (size_t step = 0; buffer.data != nullptr && at < valid && step < kMostStepped; ++step) {
    const auto* record = reinterpret_cast<const AIUpti_Activity*>(buffer.data + at);
    const aiupti::Kind kind = aiupti::kind_of(record);
    const size_t size = aiupti::size_of(kind);
    if (size == 0 || valid - at < size || !aiupti::aligned(record)) {
      *astray = true;
      return nullptr;
    }
    if (kind == aiupti::Kind::kRuntime || kind == aiupti::Kind::kDriver) {
      return aiupti::as<AIUpti_ActivityAPI>(record);
    }
    at += size;
  }
  return nullptr;
}

// Whether no buffer's first host call is of this process, and there may be some of another one.
bool looks_foreign(const Input& input, uint32_t process_id) {
  bool foreign = false;
  for (const capture::Buffer& buffer : input.buffers) {
    const AIUpti_ActivityAPI* call = first_host_call(buffer, &foreign);
    if (call == nullptr) continue;
    const uint32_t process = aiupti::process_id(*call);
    if (process == process_id || process == 0) return false;
    foreign = true;
  }
  return foreign;
}

}  // namespace

uint32_t process_id_of_records(const Input& input, const Options& options) {
  if (!looks_foreign(input, options.process_id)) return options.process_id;
  Seen seen{input, options.process_id};
  Trace counts;  // those of the real pass are what counts
  RecordReader reader(input.next_record, options, &counts);
  for (const capture::Buffer& buffer : input.buffers) {
    reader.read(buffer, seen);
    if (seen.any_of_ours || seen.several_others) return options.process_id;
  }
  if (!seen.other) return options.process_id;
  const bool lives_here = options.process_exists == nullptr || options.process_exists(*seen.other);
  return seen.on_a_thread_of_ours || !lives_here ? *seen.other : options.process_id;
}

}  // namespace kineto_spyre::trace
