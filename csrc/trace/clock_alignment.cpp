#include "trace/clock_alignment.h"

#include <algorithm>
#include <cmath>

#include "trace/clock_evidence.h"

namespace kineto_spyre::trace {
namespace {

constexpr double kMaxDrift = 300e-6;          // no crystal is worse
constexpr int64_t kMinSpan = 100'000'000;     // below this drift is within the noise of launch latencies
constexpr size_t kMinPoints = 8;              // likewise
constexpr double kMinGain = 2'000;            // ns: a drift that changes less is not worth a claim
constexpr int64_t kStray = 100'000'000;       // this far before its launch, and
constexpr int64_t kStrayGap = 1'000'000'000;  // this far from all others: a wrong record, not a wrong clock
constexpr int64_t kTightEnough = 1'000'000;   // upper and lower bounds this close: the upper one is the better

struct Line {
  double at_reference = 0;
  double slope = 0;
  int64_t reference = 0;

  double at(int64_t t) const { return at_reference + slope * static_cast<double>(t - reference); }
};

// Leaves the corners of the lower convex hull.
void lower_hull(std::vector<Bound>& points) {
  std::ranges::sort(points, [](const Bound& a, const Bound& b) { return a.t != b.t ? a.t < b.t : a.value < b.value; });
  size_t kept = 0;
  for (const Bound& point : points) {
    if (kept != 0 && points[kept - 1].t == point.t) continue;
    const auto above = [&](const Bound& a, const Bound& b) {  // b is on or above the line from a to point
      const auto run = static_cast<double>(point.t - a.t);
      const auto rise = static_cast<double>(point.value - a.value);
      return static_cast<double>(b.value - a.value) * run >= rise * static_cast<double>(b.t - a.t);
    };
    while (kept >= 2 && above(points[kept - 2], points[kept - 1])) --kept;
    points[kept++] = point;
  }
  points.resize(kept);
}

// Records that are wrong by themselves say nothing about the clock.
void drop_strays(std::vector<Bound>& upper) {
  for (int round = 0; round < 16 && !upper.empty(); ++round) {
    const auto least = std::ranges::min_element(upper, {}, &Bound::value);
    if (least->value >= -kStray) return;
    const int64_t value = least->value;
    int64_t second = 0;  // a single record has the session's own time to compare with
    bool found = false;
    for (auto at = upper.begin(); at != upper.end(); ++at) {
      if (at != least && (!found || at->value < second)) second = at->value, found = true;
    }
    if (second - value <= kStrayGap) return;
    upper.erase(least);
  }
}

// The highest line below all points: the hull's edge over the middle, or a level one where a drift is not to be told.
Line fit(const std::vector<Bound>& hull, size_t points) {
  const int64_t first = hull.front().t;
  const int64_t last = hull.back().t;
  const int64_t middle = first + (last - first) / 2;
  const auto lowest = std::ranges::min_element(hull, {}, &Bound::value);
  const Line level{static_cast<double>(lowest->value), 0, middle};
  if (points < kMinPoints || last - first < kMinSpan) return level;
  size_t right = 1;
  while (right + 1 < hull.size() && hull[right].t < middle) ++right;
  const Bound& a = hull[right - 1];
  const Bound& b = hull[right];
  const double slope = static_cast<double>(b.value - a.value) / static_cast<double>(b.t - a.t);
  if (std::abs(slope) > kMaxDrift) return level;
  const Line line{static_cast<double>(a.value) + slope * static_cast<double>(middle - a.t), slope, middle};
  return line.at_reference - level.at_reference >= kMinGain ? line : level;
}

void correct_records(EventStore& events, const DeviceClock& clock) {
  events.each([&](Event& event) {
    if (event.is_call() || aiupti::device_id(event.record) != clock.device) return;
    const int64_t start = to_host(clock, static_cast<int64_t>(aiupti::start(event.record)));
    const int64_t end = to_host(clock, static_cast<int64_t>(aiupti::end(event.record)));
    aiupti::set_times(event.record, static_cast<uint64_t>(start), static_cast<uint64_t>(end));
  });
}

}  // namespace

std::vector<DeviceClock> align_clocks(ClockEvidence& evidence, CorrelationTable& table, EventStore& events,
                                      bool enabled, bool* moved) {
  evidence.prepare();
  const bool behind = evidence.behind_a_wait(table);
  std::vector<DeviceClock> clocks;
  for (const ClockEvidence::DeviceEvidence& device : evidence.devices()) {
    DeviceClock& clock = clocks.emplace_back();
    clock.device = device.id;
    clock.pairs = device.pairs;
    clock.earliest_ns = clock.pairs != 0 ? device.least_lead : 0;
    const bool doubt = clock.pairs != 0 && (device.least_lead < 0 || behind);
    if (!enabled) {
      clock.reason = doubt
                         ? "The device's clock is off, and its times were kept because KINETO_SPYRE_CLOCK_ALIGN is off."
                         : "Clock alignment is off (KINETO_SPYRE_CLOCK_ALIGN).";
      continue;
    }
    if (!doubt && clock.pairs != 0) {
      clock.reason = "No work begins before its launch or ends after the host's wait for it, so its times were kept.";
      continue;
    }
    std::vector<Bound> upper;
    std::vector<Bound> lower;
    evidence.collect(events, table, device.id, upper, lower);
    estimate_clock(upper, lower, &clock);
    if (!clock.applied) continue;
    correct_records(events, clock);
    *moved = true;
  }
  std::ranges::sort(clocks, {}, &DeviceClock::device);
  return clocks;
}

void estimate_clock(std::vector<Bound>& upper, std::vector<Bound>& lower, DeviceClock* clock) {
  clock->pairs = upper.size();
  clock->applied = false;
  if (upper.empty()) {
    clock->reason = "No launch was recorded together with its work, so the clocks could not be compared.";
    return;
  }
  clock->earliest_ns = std::ranges::min_element(upper, {}, &Bound::value)->value;
  drop_strays(upper);
  if (upper.empty()) {
    clock->reason =
        "The only work with a launch begins far before it. That is a wrong record rather than a wrong clock.";
    return;
  }
  const size_t points = upper.size();
  const bool before_launch = std::ranges::min_element(upper, {}, &Bound::value)->value < 0;
  lower_hull(upper);
  Line line = fit(upper, points);

  // Whether waits waited for what they seem to is not documented. Where that would contradict the launches, it is
  // wrong.
  const bool waits_agree = std::ranges::all_of(
      lower, [&](const Bound& bound) { return static_cast<double>(bound.value) <= line.at(bound.t); });
  bool after_wait = false;
  if (waits_agree) {
    double gap = -1;
    for (const Bound& bound : lower) {
      after_wait = after_wait || bound.value > 0;
      const double above = line.at(bound.t) - static_cast<double>(bound.value);
      if (gap < 0 || above < gap) gap = above;
    }
    if (gap >= 0) clock->uncertainty_ns = static_cast<int64_t>(std::ceil(gap));
    // Work that never found the device idle bounds the offset only loosely from above: then move as little as needed.
    if (!before_launch && after_wait && gap > static_cast<double>(kTightEnough)) {
      line = {static_cast<double>(std::ranges::max_element(lower, {}, &Bound::value)->value), 0, line.reference};
      clock->uncertainty_ns = 0;
    }
  }
  if (!before_launch && !after_wait) {
    clock->reason = "No work begins before its launch or ends after the host's wait for it, so its times were kept.";
    return;
  }
  clock->applied = true;
  clock->reference_ns = line.reference;
  // One less where the line slopes: its touching points are exact only to a rounding.
  clock->offset_ns = static_cast<int64_t>(std::floor(line.at_reference)) - (line.slope != 0 ? 1 : 0);
  clock->drift_ppm = line.slope * 1e6;
  clock->reason =
      before_launch
          ? "By the device's clock, work began before its launch, so the device's times were corrected."
          : "By the device's clock, work ended after the host's wait for it, so the device's times were corrected.";
}

int64_t to_host(const DeviceClock& clock, int64_t device_ns) {
  const double drift = clock.drift_ppm * 1e-6 * static_cast<double>(device_ns - clock.reference_ns);
  return device_ns - clock.offset_ns - static_cast<int64_t>(std::floor(drift));
}

}  // namespace kineto_spyre::trace
