#include "trace/user_annotations.h"

#include <algorithm>
#include <bit>
#include <map>

namespace kineto_spyre::trace {
namespace {

struct Reach {
  int64_t start = INT64_MAX;
  int64_t end = INT64_MIN;

  void extend(const Reach& other) {
    start = std::min(start, other.start);
    end = std::max(end, other.end);
  }
};

// The reach of any stretch of a list, in a logarithm of steps.
class ReachTree {
 public:
  explicit ReachTree(size_t leaves) : leaves_(std::bit_ceil(leaves)), nodes_(2 * leaves_) {}
  Reach& leaf(size_t i) { return nodes_[leaves_ + i]; }
  void build() {
    for (size_t i = leaves_ - 1; i != 0; --i) {
      nodes_[i] = nodes_[2 * i];
      nodes_[i].extend(nodes_[2 * i + 1]);
    }
  }
  Reach of(size_t first, size_t end) const {
    Reach reach;
    for (first += leaves_, end += leaves_; first < end; first /= 2, end /= 2) {
      if (first % 2 != 0) reach.extend(nodes_[first++]);
      if (end % 2 != 0) reach.extend(nodes_[--end]);
    }
    return reach;
  }

 private:
  size_t leaves_;
  std::vector<Reach> nodes_;
};

}  // namespace

UserAnnotations::UserAnnotations(std::span<const HostRange> ranges, std::span<const BackwardInterval> backward)
    : ranges_(ranges.begin(), ranges.end()) {
  std::ranges::stable_sort(ranges_, [](const HostRange& a, const HostRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::unordered_map<int64_t, std::vector<Cover>> covers;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const HostRange& range = ranges_[i];
    if (range.begin < range.end) covers[range.tid].push_back({range.begin, range.end, static_cast<uint32_t>(i)});
  }
  add_backward(backward, covers);
  for (const auto& [tid, of_thread] : covers) cut(tid, of_thread);
  std::ranges::sort(runs_, {}, &Run::range);
}

void UserAnnotations::add_backward(std::span<const BackwardInterval> backward,
                                   std::unordered_map<int64_t, std::vector<Cover>>& covers) const {
  std::map<std::pair<int64_t, int64_t>, std::vector<BackwardInterval>> by_threads;
  for (const BackwardInterval& interval : backward) {
    if (interval.tid != interval.caller_tid) by_threads[{interval.tid, interval.caller_tid}].push_back(interval);
  }
  for (auto& [threads, intervals] : by_threads) {
    std::ranges::sort(intervals, {}, &BackwardInterval::begin);
    std::vector<uint32_t> open;  // ranges of the caller that the interval may lie in
    uint32_t next = 0;
    for (const BackwardInterval& interval : intervals) {
      for (; next < ranges_.size() && ranges_[next].begin < interval.end; ++next) {
        if (ranges_[next].tid == threads.second) open.push_back(next);
      }
      std::erase_if(open, [&](uint32_t range) { return ranges_[range].end <= interval.begin; });
      for (const uint32_t range : open) {
        const Cover cover{std::max(interval.begin, ranges_[range].begin), std::min(interval.end, ranges_[range].end),
                          range};
        if (cover.begin < cover.end) covers[threads.first].push_back(cover);
      }
    }
  }
}

void UserAnnotations::cut(int64_t tid, const std::vector<Cover>& covers) {
  std::vector<int64_t> times;
  times.reserve(2 * covers.size());
  for (const Cover& cover : covers) times.insert(times.end(), {cover.begin, cover.end});
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto index = [&](int64_t ns) {
    return static_cast<size_t>(std::ranges::lower_bound(times, ns) - times.begin());
  };
  std::vector<int32_t> change(times.size());  // in the number of ranges that are open
  for (const Cover& cover : covers) {
    const size_t first = index(cover.begin);
    const size_t end = index(cover.end);
    ++change[first];
    --change[end];
    runs_.push_back(
        {segments_ + 1 + static_cast<uint32_t>(first), segments_ + static_cast<uint32_t>(end), cover.range});
  }
  std::vector<Boundary>& boundaries = threads_[tid].boundaries;
  boundaries.reserve(times.size());
  int32_t open = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    open += change[i];
    boundaries.push_back({times[i], open != 0 ? segments_ + 1 + static_cast<uint32_t>(i) : 0});
  }
  segments_ += static_cast<uint32_t>(times.size());
}

UserAnnotations::Extent& UserAnnotations::find_elsewhere(uint32_t segment, uint16_t stream_track) {
  const auto [at, added] = extent_at_.try_emplace(uint64_t{segment} << 16 | stream_track, extents_.size());
  if (added) extents_.push_back({segment, stream_track, INT64_MAX, INT64_MIN});
  last_ = at->second;
  return extents_[last_];
}

uint32_t UserAnnotations::segment_at(int64_t tid, int64_t ns) {
  if (tid != last_tid_) {
    const auto at = threads_.find(tid);
    last_thread_ = at != threads_.end() ? &at->second : nullptr;
    last_tid_ = tid;
  }
  if (last_thread_ == nullptr) return 0;
  const std::vector<Boundary>& list = last_thread_->boundaries;
  size_t& cursor = last_thread_->cursor;
  // A few steps from the last place either way, else a search.
  constexpr int kSteps = 16;
  int steps = 0;
  while (cursor > 0 && list[cursor - 1].ns > ns && steps < kSteps) --cursor, ++steps;
  while (cursor < list.size() && list[cursor].ns <= ns && steps < kSteps) ++cursor, ++steps;
  if (steps == kSteps) {
    cursor = static_cast<size_t>(std::ranges::upper_bound(list, ns, {}, &Boundary::ns) - list.begin());
  }
  return cursor == 0 ? 0 : list[cursor - 1].segment;
}

std::vector<DeviceRange> UserAnnotations::finish() const {
  std::map<uint16_t, std::vector<Extent>> by_track;
  for (const Extent& extent : extents_) by_track[extent.stream_track].push_back(extent);
  std::vector<DeviceRange> found;
  for (auto& on_track : by_track) {  // no structured binding: clang 14 lets no lambda capture one
    std::vector<Extent>& extents = on_track.second;
    std::ranges::sort(extents, {}, &Extent::segment);
    ReachTree tree(extents.size());
    for (size_t i = 0; i < extents.size(); ++i) tree.leaf(i) = {extents[i].start, extents[i].end};
    tree.build();
    const auto index = [&](uint32_t segment) {  // of the first extent of this segment or a later one
      return static_cast<size_t>(std::ranges::lower_bound(extents, segment, {}, &Extent::segment) - extents.begin());
    };
    for (size_t i = 0; i < runs_.size();) {
      const uint32_t range = runs_[i].range;
      Reach reach;
      for (; i < runs_.size() && runs_[i].range == range; ++i) {
        reach.extend(tree.of(index(runs_[i].first), index(runs_[i].last + 1)));
      }
      if (reach.start <= reach.end) found.push_back({ranges_[range].id, on_track.first, 1, reach.start, reach.end});
    }
  }
  return found;
}

}  // namespace kineto_spyre::trace
