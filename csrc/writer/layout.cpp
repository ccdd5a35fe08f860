#include "writer/layout.h"

#include <algorithm>

namespace kineto_spyre::writer {
namespace {

using trace::Event;

bool before(const Slice& a, const Slice& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; }

trace::Times times_of(const Document& document, const Event& event) {
  const trace::Times own{static_cast<int64_t>(aiupti::start(event.record)),
                         static_cast<int64_t>(aiupti::end(event.record))};
  const HostSlice* op = event.is_call() ? op_of(document, event) : nullptr;
  return op != nullptr ? trace::within({op->begin, op->end}, own) : own;
}

}  // namespace

const HostSlice* op_of(const Document& document, const Event& event) {
  if (event.link == 0) return nullptr;
  const uint64_t id = document.trace->ops[event.link - 1];
  return id != 0 && id <= document.all_ops.size() ? &document.all_ops[id - 1] : nullptr;
}

std::vector<Line> lines_of(const Document& document) {
  std::vector<Line> lines;
  std::unordered_map<int64_t, size_t> threads;  // of the host, by tid
  const auto thread = [&](int64_t tid) {
    const auto [at, added] = threads.try_emplace(tid, lines.size());
    if (added) lines.push_back({true, document.process, tid, tid, "", {}});
    return at->second;
  };
  std::vector<size_t> counts(document.trace->tracks.size());
  document.events->each([&](const Event& event) {
    if (!event.has(Event::kExcluded)) ++counts[event.track];
  });
  for (const trace::DeviceRange& range : document.trace->ranges) ++counts[range.track];
  size_t last = SIZE_MAX;
  for (const HostSlice& slice : document.host) {
    if (last == SIZE_MAX || lines[last].tid != slice.tid) last = thread(slice.tid);
    lines[last].slices.push_back({slice.begin, slice.end, nullptr, &slice, nullptr});
  }
  std::vector<size_t> line_of(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const trace::Track& track = document.trace->tracks[i];
    if (counts[i] == 0) continue;
    if (track.host) {
      line_of[i] = thread(track.tid);
      if (!track.name.empty()) lines[line_of[i]].name = track.name;
    } else {
      line_of[i] = lines.size();
      lines.push_back({false, track.process, track.tid, track.sort, track.name, {}});
    }
    std::vector<Slice>& slices = lines[line_of[i]].slices;
    slices.reserve(slices.size() + counts[i]);
  }
  document.events->each([&](const Event& event) {
    if (event.has(Event::kExcluded)) return;
    const trace::Times shown = times_of(document, event);
    lines[line_of[event.track]].slices.push_back({shown.begin, shown.end, &event, nullptr, nullptr});
  });
  for (const trace::DeviceRange& range : document.trace->ranges) {
    lines[line_of[range.track]].slices.push_back({range.start, range.end, nullptr, nullptr, &range});
  }
  for (const auto& [tid, name] : document.threads) {
    const auto at = threads.find(tid);
    if (at != threads.end()) lines[at->second].name = name;
  }
  for (Line& line : lines) {
    if (!std::ranges::is_sorted(line.slices, before)) std::ranges::stable_sort(line.slices, before);
  }
  return lines;
}

Arrows::Arrows(const Document& document) {
  uint32_t most = 0;
  least_ = UINT32_MAX;
  const auto each_end = [&](auto f) {
    document.events->each([&](const Event& event) {
      if (!event.is_call() && event.has(Event::kFlow) && !event.has(Event::kExcluded)) f(event.id);
    });
  };
  each_end([&](uint32_t id) {
    least_ = std::min(least_, id);
    most = std::max(most, id);
    ++total_;
  });
  if (total_ == 0) return;
  if (most - least_ < 8 * total_ + 4096) {
    dense_.resize(most - least_ + 1);
    each_end(
        [&](uint32_t id) { dense_[id - least_] = static_cast<uint16_t>(std::min(dense_[id - least_] + 1, 0xFFFF)); });
  } else {
    each_end([&](uint32_t id) { ++sparse_[id]; });
  }
}

}  // namespace kineto_spyre::writer
