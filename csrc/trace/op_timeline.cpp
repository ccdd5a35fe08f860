#include "trace/op_timeline.h"

#include <algorithm>

namespace kineto_spyre::trace {

OpTimeline::OpTimeline(std::span<const capture::ThreadOpEvents> threads) {
  size_t begins = 0;
  for (const capture::ThreadOpEvents& events : threads) begins += events.events.size() / 2 + 1;
  ops_.reserve(begins);
  threads_.reserve(threads.size());
  // A tid that the system gave out again is one track of the trace: its op events go on in the same timeline.
  for (const capture::ThreadOpEvents& events : threads) {
    if (!events.events.empty()) read(events, thread_of(events.tid));
  }
  const auto earlier = [](const Edge& a, const Edge& b) { return a.ns < b.ns; };
  for (Thread& thread : threads_) {
    if (!std::ranges::is_sorted(thread.edges.list, earlier)) std::ranges::stable_sort(thread.edges.list, earlier);
  }
}

OpTimeline::Thread& OpTimeline::thread_of(int64_t tid) {
  const auto [at, added] = by_tid_.try_emplace(tid, static_cast<int32_t>(threads_.size()));
  if (added) threads_.push_back({.tid = tid});
  return threads_[static_cast<size_t>(at->second)];
}

void OpTimeline::read(const capture::ThreadOpEvents& events, Thread& thread) {
  std::vector<uint32_t> open;
  std::vector<Edge>& edges = thread.edges.list;
  edges.reserve(edges.size() + events.events.size() + 1);
  int64_t last = INT64_MIN;
  for (const capture::OpEvent& event : events.events) {
    switch (event.kind) {
      case capture::OpEventKind::kPushOp:
        thread.has_ops = true;
        ops_.push_back(event.id);
        open.push_back(static_cast<uint32_t>(ops_.size()));
        break;
      case capture::OpEventKind::kPopOp:
        if (!open.empty()) open.pop_back();  // else it began before the op events did
        break;
      case capture::OpEventKind::kPushRange:  // ranges are the profiler's to tell
      case capture::OpEventKind::kPopRange:
        continue;
    }
    last = std::max(last, event.ns);  // conversion from ticks may round two edges into the wrong order
    edges.push_back({last, open.empty() ? 0 : open.back()});
  }
  // Dropped op events are the last ones: what was open then can't be known to have stayed so.
  if (events.dropped != 0) edges.push_back({last, 0});
}

int32_t OpTimeline::thread(int64_t tid) const {
  const auto at = by_tid_.find(tid);
  return at == by_tid_.end() ? -1 : at->second;
}

uint32_t OpTimeline::Edges::search(int64_t ns) {
  // A few steps from the last place either way, else a search.
  constexpr int kSteps = 16;
  int steps = 0;
  while (cursor_ > 0 && list[cursor_ - 1].ns > ns && steps < kSteps) --cursor_, ++steps;
  while (cursor_ < list.size() && list[cursor_].ns <= ns && steps < kSteps) ++cursor_, ++steps;
  if (steps == kSteps) {
    cursor_ = static_cast<size_t>(std::ranges::upper_bound(list, ns, {}, [](const Edge& edge) { return edge.ns; }) -
                                  list.begin());
  }
  from_ = cursor_ == 0 ? INT64_MIN : list[cursor_ - 1].ns;
  until_ = cursor_ == list.size() ? INT64_MAX : list[cursor_].ns;
  op_ = cursor_ == 0 ? 0 : list[cursor_ - 1].op;
  return op_;
}

void OpTimeline::make_sole() {
  sole_made_ = true;
  struct Step {
    Edge edge;
    size_t thread;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < threads_.size(); ++i) {
    for (const Edge& edge : threads_[i].edges.list) steps.push_back({edge, i});
  }
  std::ranges::stable_sort(steps, {}, [](const Step& step) { return step.edge.ns; });
  std::vector<uint32_t> now(threads_.size());
  size_t within = 0;     // threads that are within an op
  size_t their_sum = 0;  // of their numbers: with one left it is that one
  for (const Step& step : steps) {
    uint32_t& op = now[step.thread];
    if (op != 0) --within, their_sum -= step.thread;
    op = step.edge.op;
    if (op != 0) ++within, their_sum += step.thread;
    sole_.list.push_back({step.edge.ns, within == 1 ? now[their_sum] : 0});
    sole_tids_.push_back(within == 1 ? threads_[their_sum].tid : within == 0 ? kNoThread : kSeveral);
  }
}

OpTimeline::Sole OpTimeline::sole_at(int64_t ns) {
  if (!sole_made_) make_sole();
  const uint32_t op = sole_.at(ns);
  const ptrdiff_t index = sole_.last_index();
  const int64_t tid = index >= 0 ? sole_tids_[static_cast<size_t>(index)] : kNoThread;
  return {op, tid, tid == kSeveral};
}

}  // namespace kineto_spyre::trace
