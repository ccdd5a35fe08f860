#include "trace/tracks.h"

#include <algorithm>
#include <cstring>

#include "trace/text.h"

namespace kineto_spyre::trace {
namespace {

constexpr int64_t kGroupBase[] = {100, 200, 300, 400, 500};
constexpr const char* kGroupName[] = {"Memcpy (HtoD)", "Memcpy (DtoH)", "Memcpy (PtoP)", "Memset", "Memory"};
constexpr int64_t kSpanBase = 600;
constexpr int64_t kHighStream = 100'000;

int64_t start_of(const Item& item) { return static_cast<int64_t>(aiupti::start(item.record)); }
int64_t end_of(const Item& item) { return static_cast<int64_t>(aiupti::end(item.record)); }

bool in_order(const Item* a, const Item* b) {
  const int64_t start_a = start_of(*a);
  const int64_t start_b = start_of(*b);
  return start_a != start_b ? start_a < start_b : end_of(*a) < end_of(*b);
}

std::string describe(const Item& item) {
  if (item.kind == aiupti::Kind::kCompute) {
    return '\'' + safe_text(aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(item.record))) + '\'';
  }
  return "correlation id " + std::to_string(aiupti::correlation_id(item.record));
}

}  // namespace

Tracks::Device& Tracks::device(uint32_t id) {
  for (Device& device : devices_) {
    if (device.id == id) return device;
  }
  devices_.emplace_back();
  devices_.back().id = id;
  return devices_.back();
}

Tracks::Row& Tracks::row(Device& device, uint32_t stream) {
  const auto [at, added] = device.by_stream.try_emplace(stream, device.rows.size());
  if (added) {
    // Stream 0's number is known when all others are: settle().
    const int64_t number = stream < static_cast<uint32_t>(kGroupBase[0]) ? stream : kHighStream + stream;
    device.rows.push_back({stream});
    device.rows.back().track = add({false, device.id, number, number * 2, "stream " + std::to_string(stream)});
  }
  return device.rows[at->second];
}

int32_t Tracks::add(Track track) {
  if (trace_->tracks.size() >= kMaxTracks) return -1;
  trace_->tracks.push_back(std::move(track));
  return static_cast<int32_t>(trace_->tracks.size() - 1);
}

Tracks::Group Tracks::group_of(const Item& item) {
  switch (item.kind) {
    case aiupti::Kind::kMemset:
      return kMemset;
    case aiupti::Kind::kMemory:
      return kMemory;
    default:
      break;
  }
  switch (aiupti::copy_kind(*aiupti::as<AIUpti_ActivityMemcpy>(item.record))) {
    case aiupti::CopyKind::kHtoD:
      return kHtoD;
    case aiupti::CopyKind::kDtoH:
      return kDtoH;
    default:
      return kPtoP;
  }
}

bool Tracks::place(Item& item, uint32_t device_id, uint32_t stream_id, int64_t start, int64_t end) {
  Device& on = device(device_id);
  if (item.kind != aiupti::Kind::kCompute) {
    const Group group = group_of(item);
    return place_copy(on.copies[group], group, on, item, start, end);
  }
  Row& row = this->row(on, stream_id);
  if (row.track < 0) return false;
  item.track = static_cast<uint16_t>(row.track);
  if (!row.is_next(start)) row.unsettled = true;
  row.last_start = std::max(row.last_start, start);
  row.last_end = std::max(row.last_end, end);
  return true;
}

void Tracks::begin_again() {
  for (Device& device : devices_) {
    for (Row& row : device.rows) {
      row.last_start = row.last_end = INT64_MIN;
      row.unsettled = false;
    }
    for (Copies& copies : device.copies) {
      for (auto& row : copies.rows) row.second = INT64_MIN;
      copies.last_start = INT64_MIN;
      copies.unsettled = false;
    }
  }
}

bool Tracks::place_copy(Copies& copies, Group group, const Device& device, Item& item, int64_t start, int64_t end) {
  if (start <= copies.last_start) copies.unsettled = true;
  copies.last_start = std::max(copies.last_start, start);
  auto free = std::ranges::find_if(copies.rows, [&](const auto& row) { return row.second <= start; });
  if (free == copies.rows.end()) {
    if (copies.rows.size() < kMaxRows) {
      const auto number = static_cast<int64_t>(copies.rows.size());
      std::string name = kGroupName[group];
      if (number != 0) name += ' ' + std::to_string(number + 1);
      const int32_t track = add({false, device.id, kGroupBase[group] + number, kGroupBase[group] * 10 + number, name});
      if (track < 0) return false;
      copies.rows.emplace_back(static_cast<uint16_t>(track), end);
      free = copies.rows.end() - 1;
    } else {
      copies.unsettled = true;
      free = copies.rows.end() - 1;
    }
  }
  free->second = std::max(free->second, end);
  item.track = free->first;
  return true;
}

bool Tracks::drop_duplicate(Item& item, const Item& other) {
  if (item.kind != other.kind || std::memcmp(item.record, other.record, aiupti::size_of(item.kind)) != 0) return false;
  item.set(Item::kExcluded);
  ++trace_->invalid[static_cast<size_t>(InvalidReason::kDuplicate)];
  --trace_->captured[static_cast<size_t>(category_of(item.kind))];
  return true;
}

void Tracks::number_stream_zero() {
  for (Device& device : devices_) {
    const auto zero = device.by_stream.find(0);
    if (zero == device.by_stream.end() || device.rows[zero->second].track < 0) continue;
    int64_t number = 1;
    while (device.by_stream.contains(static_cast<uint32_t>(number)) && number < kGroupBase[0]) ++number;
    if (number == kGroupBase[0]) number = kHighStream;
    Track& track = trace_->tracks[static_cast<size_t>(device.rows[zero->second].track)];
    track.tid = number;
    track.sort = number * 2;
  }
}

void Tracks::settle(ItemStore& items) {
  number_stream_zero();
  // Only rows that need it: usually none.
  std::unordered_map<uint16_t, std::pair<size_t, size_t>> wanted;  // track -> device, stream or kGroups
  std::vector<std::vector<Item*>> gathered;
  std::vector<std::pair<size_t, size_t>> whose;  // device, stream; streams.size() + group for copies
  for (size_t d = 0; d < devices_.size(); ++d) {
    const Device& device = devices_[d];
    for (size_t s = 0; s < device.rows.size(); ++s) {
      if (!device.rows[s].unsettled) continue;
      wanted[static_cast<uint16_t>(device.rows[s].track)] = {d, s};
    }
    for (size_t g = 0; g < kGroups; ++g) {
      if (!device.copies[g].unsettled) continue;
      for (const auto& [track, end] : device.copies[g].rows) wanted[track] = {d, device.rows.size() + g};
    }
  }
  if (wanted.empty()) return;
  std::unordered_map<uint16_t, size_t> slot;
  for (const auto& [track, key] : wanted) {
    const auto at = std::ranges::find(whose, key);
    slot[track] = static_cast<size_t>(at - whose.begin());
    if (at == whose.end()) whose.push_back(key);
  }
  gathered.resize(whose.size());
  items.each([&](Item& item) {
    if (item.has(Item::kExcluded)) return;
    const auto at = slot.find(item.track);
    if (at != slot.end()) gathered[at->second].push_back(&item);
  });
  // In the order of the rows, so that the first pair that is named is always the same.
  std::vector<size_t> order(whose.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return whose[i]; });
  for (size_t i : order) {
    Device& device = devices_[whose[i].first];
    std::ranges::stable_sort(gathered[i], in_order);
    if (whose[i].second < device.rows.size()) {
      settle_row(device, device.rows[whose[i].second], gathered[i]);
    } else {
      settle_copies(device, static_cast<Group>(whose[i].second - device.rows.size()), gathered[i]);
    }
  }
  if (trace_->overlaps != 0) {
    trace_->warnings.push_back(std::to_string(trace_->overlaps) +
                               (trace_->overlaps == 1 ? " kernel begins" : " kernels begin") +
                               " before another one on the same stream has ended, which a stream doesn't do; their "
                               "times were kept. First: " +
                               first_overlap_ + ".");
  }
}

void Tracks::settle_row(const Device& device, const Row& row, std::vector<Item*>& items) {
  const Item* latest = nullptr;  // of those so far, the one that ends last
  for (Item* item : items) {
    if (latest != nullptr && start_of(*item) < end_of(*latest)) {
      if (drop_duplicate(*item, *latest)) continue;
      if (trace_->overlaps++ == 0) {
        first_overlap_ = describe(*latest) + " and " + describe(*item) + " on stream " + std::to_string(row.stream) +
                         " of device " + std::to_string(device.id);
      }
    } else if (latest != nullptr && start_of(*item) == start_of(*latest) && drop_duplicate(*item, *latest)) {
      continue;
    }
    if (latest == nullptr || end_of(*item) > end_of(*latest)) latest = item;
  }
}

void Tracks::settle_copies(Device& device, Group group, std::vector<Item*>& items) {
  Copies& copies = device.copies[group];
  for (auto& row : copies.rows) row.second = INT64_MIN;
  copies.last_start = INT64_MIN;
  const Item* previous = nullptr;
  for (Item* item : items) {
    if (previous != nullptr && start_of(*item) == start_of(*previous) && drop_duplicate(*item, *previous)) continue;
    previous = item;
    const int64_t start = start_of(*item);
    const bool full = std::ranges::none_of(copies.rows, [&](const auto& row) { return row.second <= start; }) &&
                      copies.rows.size() == kMaxRows;
    trace_->tracks_exhausted += full ? 1 : 0;
    place_copy(copies, group, device, *item, start, end_of(*item));
  }
}

void Tracks::place_spans(std::vector<Span>& spans) {
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    if (a.track != b.track) return a.track < b.track;
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  // Ranges nest. Those that cross (of two threads, on one stream) go to further rows.
  struct Row {
    uint16_t track;
    std::vector<int64_t> open;  // ends of the spans that the next one may stand in
  };
  std::vector<Row> rows;
  uint16_t stream_track = 0;
  std::vector<Span> placed;
  placed.reserve(spans.size());
  for (const Span& span : spans) {
    if (rows.empty() || span.track != stream_track) {
      rows.clear();
      stream_track = span.track;
    }
    const auto fits = [&](Row& row) {
      while (!row.open.empty() && row.open.back() <= span.start) row.open.pop_back();
      return row.open.empty() || span.end <= row.open.back();
    };
    auto at = std::ranges::find_if(rows, fits);
    if (at == rows.end()) {
      const Track stream = trace_->tracks[stream_track];
      Device& on = device(static_cast<uint32_t>(stream.process));
      std::string name = stream.name + " ranges";
      if (!rows.empty()) name += ' ' + std::to_string(rows.size() + 1);
      const int32_t track = add({false, stream.process, kSpanBase + on.span_rows++, stream.sort - 1, name});
      if (track < 0) continue;
      rows.push_back({static_cast<uint16_t>(track), {}});
      at = rows.end() - 1;
    }
    placed.push_back(span);
    Span& shown = placed.back();
    shown.track = at->track;
    at->open.push_back(span.end);
    shown.level = static_cast<uint16_t>(at->open.size());
  }
  spans = std::move(placed);
}

}  // namespace kineto_spyre::trace
