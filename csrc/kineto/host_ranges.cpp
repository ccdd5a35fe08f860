#include "kineto/host_ranges.h"

#include <ITraceActivity.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace kineto_spyre::kineto {
namespace {

using capture::OpEventKind;
using libkineto::getLinkedActivityCallback;
using trace::BackwardInterval;
using trace::HostRange;

constexpr std::string_view kEngineOp = "autograd::engine::evaluate_function";

struct EngineOp {
  int64_t tid;
  int64_t begin, end;
};

// Whether the ops of this thread are the engine's: its first one tells.
bool is_engine(const capture::ThreadOpEvents& thread, const getLinkedActivityCallback& linked) {
  const auto first = std::ranges::find(thread.events, OpEventKind::kPushOp, &capture::OpEvent::kind);
  if (first == thread.events.end()) return false;
  const auto* op = linked(static_cast<int32_t>(first->id));
  return op != nullptr && op->name().starts_with(kEngineOp);
}

// The outermost ops of a thread. One that was open at the end of the window lasts to the thread's last op event.
void add_outermost_ops(const capture::ThreadOpEvents& thread, std::vector<EngineOp>& ops) {
  int depth = 0;
  for (const capture::OpEvent& event : thread.events) {
    if (event.kind == OpEventKind::kPushOp) {
      if (depth == 0) ops.push_back({thread.tid, event.ns, thread.events.back().ns});
      ++depth;
    } else if (event.kind == OpEventKind::kPopOp && depth > 0) {
      --depth;
      if (depth == 0) ops.back().end = event.ns;
    }
  }
}

std::vector<HostRange> recorded_ranges(std::span<const capture::ThreadOpEvents> threads,
                                       const getLinkedActivityCallback& linked) {
  std::vector<HostRange> ranges;
  for (const capture::ThreadOpEvents& thread : threads) {
    for (const capture::OpEvent& event : thread.events) {
      if (event.kind != OpEventKind::kPushRange) continue;
      const auto* range = linked(static_cast<int32_t>(event.id));
      if (range == nullptr) continue;
      const int64_t begin = range->timestamp();
      ranges.push_back({event.id, thread.tid, begin, begin + range->duration()});
    }
  }
  return ranges;
}

// In the order of time: which threads are within a range, and each op of the engine with the one that there is.
std::vector<BackwardInterval> callers_of(std::vector<EngineOp>& ops, const std::vector<HostRange>& ranges,
                                         const std::unordered_set<int64_t>& engines) {
  struct Step {
    int64_t ns;
    int change;
    int64_t tid;
  };
  std::vector<Step> steps;
  for (const HostRange& range : ranges) {
    if (engines.contains(range.tid)) continue;
    steps.push_back({range.begin, 1, range.tid});
    steps.push_back({range.end, -1, range.tid});
  }
  std::ranges::sort(steps, {}, &Step::ns);
  std::ranges::sort(ops, {}, &EngineOp::begin);
  std::unordered_map<int64_t, int> open;  // by thread, only those above 0
  std::vector<BackwardInterval> found;
  auto step = steps.begin();
  for (const EngineOp& op : ops) {
    for (; step != steps.end() && step->ns <= op.begin; ++step) {
      int& count = open[step->tid];
      count += step->change;
      if (count == 0) open.erase(step->tid);
    }
    if (open.size() == 1) found.push_back({op.tid, open.begin()->first, op.begin, op.end});
  }
  return found;
}

}  // namespace

HostRanges host_ranges(std::span<const capture::ThreadOpEvents> threads, const getLinkedActivityCallback& linked) {
  HostRanges host;
  if (!linked) return host;
  host.ranges = recorded_ranges(threads, linked);
  if (host.ranges.empty()) return host;
  std::vector<EngineOp> ops;
  std::unordered_set<int64_t> engines;
  for (const capture::ThreadOpEvents& thread : threads) {
    if (!is_engine(thread, linked)) continue;
    engines.insert(thread.tid);
    add_outermost_ops(thread, ops);
  }
  host.backward = callers_of(ops, host.ranges, engines);
  return host;
}

}  // namespace kineto_spyre::kineto
