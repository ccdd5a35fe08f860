#include "trace/op_timeline.h"

#include <algorithm>

namespace kineto_spyre::trace {

OpTimeline::OpTimeline(std::span<const capture::ThreadOpEvents> threads) {
  size_t begins = 0;
  for (const capture::ThreadOpEvents& notes : threads) begins += notes.events.size() / 2 + 1;
  ops_.reserve(begins);
  threads_.reserve(threads.size());
  for (const capture::ThreadOpEvents& notes : threads) {
    if (notes.events.empty()) continue;
    // A tid that the system gave out again is one row of the trace: its notes go on in the same timeline.
    const auto [at, added] = by_tid_.try_emplace(notes.tid, static_cast<int32_t>(threads_.size()));
    if (added) threads_.push_back({.tid = notes.tid});
    read(notes, threads_[static_cast<size_t>(at->second)]);
  }
  for (Thread& thread : threads_) {
    const auto earlier = [](const Edge& a, const Edge& b) { return a.ns < b.ns; };
    if (!std::ranges::is_sorted(thread.edges, earlier)) std::ranges::stable_sort(thread.edges, earlier);
  }
}

void OpTimeline::read(const capture::ThreadOpEvents& notes, Thread& thread) {
  std::vector<uint32_t> open_ops;
  std::vector<uint32_t> open_ranges;
  thread.edges.reserve(thread.edges.size() + notes.events.size() + 1);
  int64_t last = INT64_MIN;
  for (const capture::OpEvent& note : notes.events) {
    switch (note.kind) {
      case capture::OpEventKind::kPushOp:
        ops_.push_back(note.id);
        open_ops.push_back(static_cast<uint32_t>(ops_.size()));
        break;
      case capture::OpEventKind::kPopOp:
        if (!open_ops.empty()) open_ops.pop_back();  // else it began before the notes did
        break;
      case capture::OpEventKind::kPushRange:
        ranges_.push_back({note.id, open_ranges.empty() ? 0 : open_ranges.back()});
        open_ranges.push_back(static_cast<uint32_t>(ranges_.size()));
        break;
      case capture::OpEventKind::kPopRange:
        if (!open_ranges.empty()) open_ranges.pop_back();
        break;
    }
    last = std::max(last, note.ns);  // conversion from ticks may round two edges into the wrong order
    thread.edges.push_back(
        {last, {open_ops.empty() ? 0 : open_ops.back(), open_ranges.empty() ? 0 : open_ranges.back()}});
  }
  // Lost notes are the last ones: what was open then can't be known to have stayed so.
  if (notes.dropped != 0) thread.edges.push_back({last, {}});
}

int32_t OpTimeline::find_thread(int64_t tid) {
  const auto at = by_tid_.find(tid);
  last_tid_ = tid;
  last_thread_ = at == by_tid_.end() ? -1 : at->second;
  return last_thread_;
}

OpTimeline::Place OpTimeline::search(int32_t number, int64_t ns) {
  Thread& thread = threads_[static_cast<size_t>(number)];
  const std::vector<Edge>& edges = thread.edges;
  // A few steps from the last place either way, else a search.
  size_t cursor = thread.cursor;
  constexpr int kSteps = 16;
  int steps = 0;
  while (cursor > 0 && edges[cursor - 1].ns > ns && steps < kSteps) --cursor, ++steps;
  while (cursor < edges.size() && edges[cursor].ns <= ns && steps < kSteps) ++cursor, ++steps;
  if (steps == kSteps) {
    cursor = static_cast<size_t>(std::ranges::upper_bound(edges, ns, {}, [](const Edge& edge) { return edge.ns; }) -
                                 edges.begin());
  }
  thread.cursor = cursor;
  thread.from = cursor == 0 ? INT64_MIN : edges[cursor - 1].ns;
  thread.until = cursor == edges.size() ? INT64_MAX : edges[cursor].ns;
  thread.place = cursor == 0 ? Place{} : edges[cursor - 1].place;
  return thread.place;
}

OpTimeline::Place OpTimeline::only_one_at(int64_t ns, int64_t* tid) {
  Place found;
  const Thread* owner = nullptr;
  for (size_t i = 0; i < threads_.size(); ++i) {
    const Place place = at(static_cast<int32_t>(i), ns);
    if (place.op == 0) continue;
    if (owner != nullptr) return {};
    owner = &threads_[i];
    found = place;
  }
  if (owner != nullptr) *tid = owner->tid;
  return found;
}

}  // namespace kineto_spyre::trace
