#include "trace/trace.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "aiupti/cbid.h"
#include "trace/clock.h"
#include "trace/notes.h"
#include "trace/rows.h"
#include "trace/text.h"
#include "trace/walk.h"

namespace kineto_spyre::trace {
namespace {

using aiupti::Kind;

bool is_host(Kind kind) { return kind == Kind::kRuntime || kind == Kind::kDriver; }

const AIUpti_ActivityAPI& call_of(const Item& item) { return *aiupti::as<AIUpti_ActivityAPI>(item.record); }

// Numbers the correlation ids of a session: small, distinct, from 0. Ids that lie close together (one counter of the
// runtime) are numbered by their distance from the least; others (wrapped, foreign, 64 bits wide) in the order seen.
class Correlations {
 public:
  explicit Correlations(ItemStore& items) {
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    size_t count = 0;
    items.each([&](Item& item) {
      const uint64_t id = aiupti::correlation_id(item.record);
      if (id == 0) return;
      low = std::min(low, id);
      high = std::max(high, id);
      ++count;
    });
    if (count == 0) return;
    low_ = low;
    dense_ = high - low < 4 * count + 1024;
    if (dense_) {
      size_ = static_cast<uint32_t>(high - low + 1);
      return;
    }
    numbers_.reserve(count);
    items.each([&](Item& item) {
      const uint64_t id = aiupti::correlation_id(item.record);
      if (id != 0 && numbers_.try_emplace(id, size_).second) ++size_;
    });
  }
  uint32_t size() const { return size_; }
  uint32_t number(uint64_t id) const { return dense_ ? static_cast<uint32_t>(id - low_) : numbers_.find(id)->second; }

 private:
  bool dense_ = true;
  uint64_t low_ = 0;
  uint32_t size_ = 0;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

// The launching call of a correlation id: of its host records the one that stands for it.
struct Launch {
  int64_t start = 0;
  Item* item = nullptr;
  uint32_t duration = 0;  // ns, at most
  uint32_t op = 0;        // as in Timeline::Place
  uint32_t range = 0;
  int16_t thread = -1;
  uint8_t rank = 0;  // 0: none
  bool foreign = false;

  int64_t end() const { return start + duration; }
};
static_assert(sizeof(Launch) == 32);

// A call that waits for device work.
struct Wait {
  int64_t start, end;
  int16_t thread;
  int32_t device;   // -1: not told
  uint32_t stream;  // 0: all of the device
};

// The first of some waits that begins at or after a time; fast for times that mostly ascend.
class WaitList {
 public:
  void add(int64_t start, int64_t end) { waits_.push_back({start, end}); }
  bool empty() const { return waits_.empty(); }
  void sort() { std::ranges::sort(waits_); }
  int64_t end_of_first_from(int64_t ns) {
    size_t steps = 0;
    while (cursor_ > 0 && waits_[cursor_ - 1].first >= ns && ++steps < 16) --cursor_;
    while (cursor_ < waits_.size() && waits_[cursor_].first < ns && ++steps < 16) ++cursor_;
    if (steps >= 16) {
      cursor_ = static_cast<size_t>(
          std::ranges::lower_bound(waits_, ns, {}, [](const auto& wait) { return wait.first; }) - waits_.begin());
    }
    return cursor_ < waits_.size() ? waits_[cursor_].second : INT64_MAX;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> waits_;
  size_t cursor_ = 0;
};

class Maker {
 public:
  Maker(const Input& input, const Options& options, ItemStore& items, Trace* trace)
      : options_(options), items_(items), trace_(trace), timeline_(input.threads), correlations_(items), rows_(trace) {}

  void make() {
    launches_.resize(correlations_.size());
    join_host_calls();
    find_devices();
    collect_waits();
    const Trace after_host_calls = *trace_;
    place();
    if (correct_clocks()) {
      *trace_ = after_host_calls;
      place();
    }
    finish_spans();
    for (Device& device : devices_) trace_->clocks.push_back(std::move(device.clock));
    trace_->ops = std::move(timeline_.ops());
  }

 private:
  // --- host calls -------------------------------------------------------------------------------------------------

  void join_host_calls() {
    for (uint32_t cbid = 0; cbid < launching_.size(); ++cbid) {
      launching_[cbid] = aiupti::launches_device_work(cbid);
      known_[cbid] = !aiupti::known_cbid_name(cbid).empty();
    }
    items_.each([&](Item& item) {
      if (is_host(item.kind)) join_host_call(item);
    });
    // A driver call on a helper thread belongs to the op whose runtime call has the same id.
    for (Item* item : helpers_) {
      const Launch& launch = launches_[item->id - kIdBase - 1];
      if (launch.item != item) item->link = launch.op;
    }
  }

  void join_host_call(Item& item) {
    const AIUpti_ActivityAPI& call = call_of(item);
    const auto start = static_cast<int64_t>(aiupti::start(call));
    const auto end = static_cast<int64_t>(aiupti::end(call));
    const uint64_t correlation = aiupti::correlation_id(call);
    const uint32_t cbid = aiupti::cbid(call);
    Launch* launch = nullptr;
    if (correlation != 0) {
      const uint32_t number = correlations_.number(correlation);
      item.id = kIdBase + 1 + number;
      launch = &launches_[number];
    } else {
      item.id = 0;
    }
    if (const uint32_t process = aiupti::process_id(call); process != 0 && process != options_.process_id) {
      if (launch != nullptr && launch->rank == 0) launch->foreign = true;
      drop(item, Refusal::kForeignProcess);
      return;
    }

    int64_t tid = options_.process_id;
    Timeline::Place at;
    int32_t thread = -1;
    if (const auto told = aiupti::thread_id(call); told && *told != 0) {
      tid = *told;
      thread = timeline_.thread(tid);
      if (thread >= 0) at = timeline_.at(thread, start);
    } else {
      at = timeline_.only_one_at(start, &tid);
    }
    item.link = at.op;

    if (launch != nullptr) {
      const uint8_t rank = static_cast<uint8_t>(1 + (item.kind == Kind::kRuntime ? 1 : 0) + (launches(cbid) ? 2 : 0));
      if (launch->rank != 0 && is_duplicate(item, *launch->item)) {
        drop(item, Refusal::kDuplicate);
        return;
      }
      if (rank > launch->rank || (rank == launch->rank && start < launch->start)) {
        if (launch->item != nullptr) launch->item->flags &= static_cast<uint8_t>(~Item::kCorrelated);
        item.flags |= Item::kCorrelated;
        *launch = {start, &item,    static_cast<uint32_t>(std::min<int64_t>(end - start, UINT32_MAX)),
                   at.op, at.range, static_cast<int16_t>(thread),
                   rank,  false};
      }
      if (at.op == 0 && thread < 0) helpers_.push_back(&item);
    }
    if (cbid == AIUPTI_RUNTIME_TRACE_CBID_SCHEDULE_WAIT) {
      const uint64_t target = aiupti::data(call).value_or(UINT64_MAX);
      waits_.push_back({start, end, static_cast<int16_t>(thread), static_cast<int32_t>(target >> 32),
                        static_cast<uint32_t>(target)});
    }

    if (start < options_.window_begin || start > options_.window_end) {
      item.flags |= Item::kDropped;
      ++trace_->outside;
      return;
    }
    const Category category = category_of(item.kind);
    if (!options_.wanted[static_cast<size_t>(category)]) {
      item.flags |= Item::kDropped;
      ++trace_->not_requested;
      return;
    }
    const int32_t lane = host_lane(tid);
    if (lane < 0) {
      drop(item, Refusal::kTooManyRows);
      return;
    }
    item.lane = static_cast<uint16_t>(lane);
    if (cbid >= known_.size() || !known_[cbid]) ++trace_->unknown_calls;
    ++trace_->captured[static_cast<size_t>(category)];
  }

  bool launches(uint32_t cbid) const { return cbid < launching_.size() && launching_[cbid]; }

  static bool is_duplicate(const Item& a, const Item& b) {
    return a.kind == b.kind && std::memcmp(a.record, b.record, aiupti::size_of(a.kind)) == 0;
  }

  int32_t host_lane(int64_t tid) {
    if (tid == last_tid_) return last_lane_;
    const auto [at, added] = host_lanes_.try_emplace(tid, -1);
    if (added) {
      // Kineto itself names the rows of threads that run ops.
      std::string name = timeline_.thread(tid) < 0 ? "thread " + std::to_string(tid) + " (AIU runtime)" : "";
      at->second = rows_.add({true, options_.process_id, tid, tid, std::move(name)});
    }
    last_tid_ = tid;
    last_lane_ = at->second;
    return last_lane_;
  }

  void drop(Item& item, Refusal refusal) {
    item.flags |= Item::kDropped;
    ++trace_->refused[static_cast<size_t>(refusal)];
  }

  // --- device work ------------------------------------------------------------------------------------------------

  struct Device {
    Clock clock;
    WaitList waits;  // for all of the device
    std::unordered_map<uint32_t, WaitList> stream_waits;
    bool any_wait = false;
    int64_t least_lead = INT64_MAX;   // work's begin minus launch's begin
    int64_t most_behind = INT64_MIN;  // work's end minus its wait's end
  };

  template <class F>
  static void with_device_record(const Item& item, F f) {
    switch (item.kind) {
      case Kind::kCompute:
        return f(*aiupti::as<AIUpti_ActivityCompute>(item.record));
      case Kind::kMemcpy:
      case Kind::kMemcpy2:
        return f(*aiupti::as<AIUpti_ActivityMemcpy>(item.record));
      case Kind::kMemset:
        return f(*aiupti::as<AIUpti_ActivityMemset>(item.record));
      case Kind::kMemory:
        return f(*aiupti::as<AIUpti_ActivityMemory>(item.record));
      default:
        return;
    }
  }

  Device& device(uint32_t id) {
    if (last_device_ == nullptr || last_device_->clock.device != id) {
      const auto at = std::ranges::lower_bound(devices_, id, {}, [](const Device& d) { return d.clock.device; });
      last_device_ = &*at;
    }
    return *last_device_;
  }

  void find_devices() {
    std::vector<uint32_t> ids;
    uint32_t last = 0;
    items_.each([&](Item& item) {
      with_device_record(item, [&](const auto& record) {
        const uint32_t id = aiupti::device_id(record);
        if (!ids.empty() && id == last) return;
        last = id;
        const auto at = std::ranges::lower_bound(ids, id);
        if (at == ids.end() || *at != id) ids.insert(at, id);
      });
    });
    devices_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) devices_[i].clock.device = ids[i];
    trace_->devices = std::move(ids);
  }

  void collect_waits() {
    for (const Wait& wait : waits_) {
      const auto at = std::ranges::lower_bound(devices_, static_cast<uint32_t>(wait.device), {},
                                               [](const Device& d) { return d.clock.device; });
      if (wait.device >= 0 && at != devices_.end() && at->clock.device == static_cast<uint32_t>(wait.device)) {
        at->any_wait = true;
        (wait.stream == 0 ? at->waits : at->stream_waits[wait.stream]).add(wait.start, wait.end);
      } else if (wait.thread >= 0) {
        thread_waits_[wait.thread].add(wait.start, wait.end);
      }
    }
    for (Device& device : devices_) {
      device.waits.sort();
      for (auto& [stream, waits] : device.stream_waits) waits.sort();
    }
    for (auto& [thread, waits] : thread_waits_) waits.sort();
  }

  // The end of the first wait that began after this launch and waited for its work; INT64_MAX if there is none.
  int64_t waited_until(Device& device, uint32_t stream, const Launch& launch) {
    int64_t until = INT64_MAX;
    const int64_t from = launch.end();
    if (device.any_wait) {
      until = device.waits.end_of_first_from(from);
      if (!device.stream_waits.empty()) {
        const auto at = device.stream_waits.find(stream);
        if (at != device.stream_waits.end()) until = std::min(until, at->second.end_of_first_from(from));
      }
    }
    if (!thread_waits_.empty()) {
      const auto at = thread_waits_.find(launch.thread);
      if (at != thread_waits_.end()) until = std::min(until, at->second.end_of_first_from(from));
    }
    return until;
  }

  void place() {
    rows_ = Rows(trace_);
    for (Device& device : devices_) {
      device.clock.pairs = 0;
      device.least_lead = INT64_MAX;
      device.most_behind = INT64_MIN;
    }
    spans_.clear();
    span_at_.clear();
    last_span_ = nullptr;
    uint32_t unnumbered = correlations_.size();
    items_.each(
        [&](Item& item) { with_device_record(item, [&](const auto& record) { place(item, record, unnumbered); }); });
    rows_.settle(items_);
  }

  template <class R>
  void place(Item& item, const R& record, uint32_t& unnumbered) {
    const auto start = static_cast<int64_t>(aiupti::start(record));
    const auto end = static_cast<int64_t>(aiupti::end(record));
    const uint64_t correlation = aiupti::correlation_id(record);
    const uint32_t stream = aiupti::stream_id(record);
    item.flags = 0;
    item.link = 0;
    Launch* launch = nullptr;
    if (correlation != 0) {
      const uint32_t number = correlations_.number(correlation);
      item.id = kIdBase + 1 + number;
      launch = &launches_[number];
      if (launch->rank == 0) {
        if (launch->foreign) return drop(item, Refusal::kForeignProcess);
        launch = nullptr;
      }
    } else {
      item.id = kIdBase + 1 + unnumbered++;
    }

    // Work belongs to the window that its launch belongs to: what warm-up launched is warm-up's, however late it runs.
    const int64_t from = options_.window_begin;
    const int64_t until = options_.window_end;
    bool inside = launch != nullptr ? launch->start >= from && launch->start <= until : start >= from && end <= until;
    if constexpr (requires { aiupti::queued(record); }) {
      const auto queued = static_cast<int64_t>(aiupti::queued(record).value_or(0));
      if (launch == nullptr && queued > 0 && queued < from) inside = false;
    }
    if (!inside) {
      item.flags |= Item::kDropped;
      ++trace_->outside;
      return;
    }

    Device& on = device(aiupti::device_id(record));
    if (launch != nullptr) {
      ++on.clock.pairs;
      on.least_lead = std::min(on.least_lead, start - launch->start);
      if constexpr (!std::is_same_v<R, AIUpti_ActivityMemory>) {
        if (on.any_wait || !thread_waits_.empty()) {
          const int64_t waited = waited_until(on, stream, *launch);
          if (waited != INT64_MAX) on.most_behind = std::max(on.most_behind, end - waited);
        }
      }
    }

    const Category category = category_of(item.kind);
    if (!options_.wanted[static_cast<size_t>(category)]) {
      item.flags |= Item::kDropped;
      ++trace_->not_requested;
      return;
    }
    if (!rows_.place(item, on.clock.device, stream, start, end)) return drop(item, Refusal::kTooManyRows);
    ++trace_->captured[static_cast<size_t>(category)];
    item.flags |= Item::kCorrelated;
    if (launch != nullptr) {
      // Not an allocation's: its time would count as device time of the op.
      if constexpr (!std::is_same_v<R, AIUpti_ActivityMemory>) item.link = launch->op;
      if (!launch->item->has(Item::kDropped)) {
        item.flags |= Item::kFlow;
        launch->item->flags |= Item::kFlow;
      }
      if (start < launch->start) {
        item.flags |= Item::kEarly;
        if (trace_->early++ == 0) first_early_ = &item;
      }
      if constexpr (!std::is_same_v<R, AIUpti_ActivityMemory>) {
        if (launch->range != 0) extend_span(launch->range, on.clock.device, stream, start, end);
      }
    } else {
      ++trace_->unlinked;
    }
    if constexpr (std::is_same_v<R, AIUpti_ActivityCompute>) {
      if (end - start > kLongKernelNs) {
        item.flags |= Item::kLong;
        if (trace_->long_kernels++ == 0) first_long_ = &item;
      }
    }
  }

  // --- record_function ranges --------------------------------------------------------------------------------------

  struct RangeSpan {
    uint32_t range;  // index plus 1
    uint16_t stream_lane;
    int64_t start, end;
  };

  static void extend(RangeSpan& span, int64_t start, int64_t end) {
    span.start = std::min(span.start, start);
    span.end = std::max(span.end, end);
  }

  RangeSpan& span(uint32_t range, uint16_t lane) {
    if (last_span_ != nullptr && last_span_->range == range && last_span_->stream_lane == lane) return *last_span_;
    const auto [at, added] = span_at_.try_emplace(uint64_t{range} << 16 | lane, spans_.size());
    if (added) spans_.push_back({range, lane, INT64_MAX, INT64_MIN});
    last_span_ = &spans_[at->second];
    return *last_span_;
  }

  void extend_span(uint32_t range, uint32_t device, uint32_t stream, int64_t start, int64_t end) {
    const int32_t lane = rows_.stream_row(device, stream);
    if (lane >= 0) extend(span(range, static_cast<uint16_t>(lane)), start, end);
  }

  // A range holds what the ranges in it hold.
  void finish_spans() {
    const std::vector<Timeline::Range>& ranges = timeline_.ranges();
    // A range has a lower number than those within it: from the highest down, each is whole before it is added to the
    // one around it.
    std::priority_queue<std::pair<uint32_t, size_t>> queue;
    for (size_t i = 0; i < spans_.size(); ++i) queue.emplace(spans_[i].range, i);
    for (; !queue.empty(); queue.pop()) {
      const RangeSpan inner = spans_[queue.top().second];
      const uint32_t parent = ranges[inner.range - 1].parent;
      if (parent == 0) continue;
      const size_t known = spans_.size();
      extend(span(parent, inner.stream_lane), inner.start, inner.end);
      if (spans_.size() != known) queue.emplace(parent, known);
    }
    for (const RangeSpan& span : spans_) {
      trace_->spans.push_back({ranges[span.range - 1].id, span.stream_lane, span.start, span.end});
    }
    rows_.place_spans(trace_->spans);
  }

  // --- clocks -----------------------------------------------------------------------------------------------------

  // True if a device's records were moved.
  bool correct_clocks() {
    bool moved = false;
    for (Device& device : devices_) {
      Clock& clock = device.clock;
      clock.earliest_ns = clock.pairs != 0 ? device.least_lead : 0;
      const bool doubt = clock.pairs != 0 && (device.least_lead < 0 || device.most_behind > 0);
      if (!options_.align_clocks) {
        clock.reason = doubt ? "The device's clock is off, and was left so, for KINETO_SPYRE_CLOCK_ALIGN is off."
                             : "Alignment is off (KINETO_SPYRE_CLOCK_ALIGN).";
        continue;
      }
      if (doubt || clock.pairs == 0) {
        std::vector<Bound> upper;
        std::vector<Bound> lower;
        collect_bounds(device, upper, lower);
        estimate_clock(upper, lower, &clock);
      } else {
        clock.reason =
            "No work begins before its launch or ends after it was waited for: the device's times were kept.";
      }
      if (clock.applied) {
        move_records(clock);
        moved = true;
      }
    }
    return moved;
  }

  void collect_bounds(Device& device, std::vector<Bound>& upper, std::vector<Bound>& lower) {
    items_.each([&](Item& item) {
      with_device_record(item, [&](const auto& record) {
        const uint64_t correlation = aiupti::correlation_id(record);
        if (aiupti::device_id(record) != device.clock.device || correlation == 0) return;
        const Launch& launch = launches_[correlations_.number(correlation)];
        if (launch.rank == 0) return;
        const auto start = static_cast<int64_t>(aiupti::start(record));
        const auto end = static_cast<int64_t>(aiupti::end(record));
        upper.push_back({start, start - launch.start});
        if (item.kind == Kind::kMemory) return;
        const int64_t waited = waited_until(device, aiupti::stream_id(record), launch);
        if (waited != INT64_MAX) lower.push_back({end, end - waited});
      });
    });
  }

  void move_records(const Clock& clock) {
    items_.each([&](Item& item) {
      if (is_host(item.kind)) return;
      if (aiupti::device_id(item.record) != clock.device) return;
      const int64_t start = to_host(clock, static_cast<int64_t>(aiupti::start(item.record)));
      const int64_t end = to_host(clock, static_cast<int64_t>(aiupti::end(item.record)));
      aiupti::set_times(item.record, static_cast<uint64_t>(start), static_cast<uint64_t>(end));
    });
  }

 public:
  // Sentences about what the passes found; after make().
  void warn() {
    std::vector<std::string>& warnings = trace_->warnings;
    if (trace_->early != 0) {
      warnings.push_back(std::to_string(trace_->early) +
                         " piece(s) of device work begin before the call that launched "
                         "them; their times were kept. First: " +
                         describe(*first_early_) + ".");
    }
    if (trace_->long_kernels != 0) {
      warnings.push_back(std::to_string(trace_->long_kernels) +
                         " kernel(s) last longer than a second. First: " + describe(*first_long_) + ".");
    }
    if (trace_->crowded != 0) {
      warnings.push_back(std::to_string(trace_->crowded) +
                         " copies overlap more than the rows there are for them, so "
                         "they overlap in the trace.");
    }
    for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
      const Sizes& sizes = trace_->sizes[kind];
      const std::string name(aiupti::kind_name(static_cast<Kind>(kind)));
      if (sizes.seen > sizes.built) {
        warnings.push_back("This libaiupti writes " + name + " records of " + std::to_string(sizes.seen) +
                           " bytes, and this build knows " + std::to_string(sizes.built) +
                           ": the known fields were read. Rebuild kineto-spyre against the SDK's header to be sure.");
      } else if (sizes.seen != 0 && sizes.seen < sizes.built) {
        warnings.push_back("This libaiupti writes " + name + " records of " + std::to_string(sizes.seen) +
                           " bytes, and this build expects " + std::to_string(sizes.built) +
                           ": they were refused. Rebuild kineto-spyre against the SDK's header "
                           "(LIBAIUPTI_INSTALL_DIR).");
      }
    }
    if (trace_->total_refused() != 0) {
      std::string text = std::to_string(trace_->total_refused()) + " record(s) were refused:";
      const char* separator = " ";
      for (size_t i = 0; i < kRefusals; ++i) {
        if (trace_->refused[i] == 0) continue;
        text +=
            separator + std::to_string(trace_->refused[i]) + " " + std::string(refusal_name(static_cast<Refusal>(i)));
        separator = ", ";
      }
      warnings.push_back(text + ".");
    }
    if (trace_->broken_walks != 0) {
      warnings.push_back("libaiupti's walk over " + std::to_string(trace_->broken_walks) +
                         " buffer(s) broke off with an error or did not end; what it returned until then was kept.");
    }
    for (const Clock& clock : trace_->clocks) {
      if (!clock.applied) continue;
      warnings.push_back("The clock of device " + std::to_string(clock.device) + " was off by " +
                         std::to_string(clock.offset_ns) + " ns against the host's; its times were corrected.");
    }
  }

 private:
  static std::string describe(const Item& item) {
    if (item.kind == Kind::kCompute) {
      return '\'' + safe_text(aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(item.record))) + '\'';
    }
    return std::string(aiupti::kind_name(item.kind)) + " with correlation id " +
           std::to_string(aiupti::correlation_id(item.record));
  }

  static constexpr size_t kCbids = 256;

  const Options& options_;
  ItemStore& items_;
  Trace* trace_;
  Timeline timeline_;
  Correlations correlations_;
  std::vector<Launch> launches_;
  std::vector<Item*> helpers_;  // host calls of threads without notes
  std::vector<Wait> waits_;
  std::unordered_map<int16_t, WaitList> thread_waits_;
  std::array<bool, kCbids> launching_{};
  std::array<bool, kCbids> known_{};
  std::unordered_map<int64_t, int32_t> host_lanes_;
  int64_t last_tid_ = -1;
  int32_t last_lane_ = -1;
  std::vector<Device> devices_;  // by id
  Device* last_device_ = nullptr;
  Rows rows_;
  std::vector<RangeSpan> spans_;
  std::unordered_map<uint64_t, size_t> span_at_;
  RangeSpan* last_span_ = nullptr;
  const Item* first_early_ = nullptr;
  const Item* first_long_ = nullptr;
};

}  // namespace

std::string_view category_name(Category category) {
  constexpr std::array<std::string_view, kCategories> names = {"kernel", "memcpy",  "memset",
                                                               "memory", "runtime", "driver"};
  return names[static_cast<size_t>(category)];
}

Category category_of(Kind kind) {
  switch (kind) {
    case Kind::kMemset:
      return Category::kMemset;
    case Kind::kMemory:
      return Category::kMemory;
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return Category::kMemcpy;
    case Kind::kRuntime:
      return Category::kRuntime;
    case Kind::kDriver:
      return Category::kDriver;
    default:
      return Category::kKernel;
  }
}

std::string_view refusal_name(Refusal refusal) {
  constexpr std::array<std::string_view, kRefusals> names = {"start_zero",   "end_before_start", "unreasonable_time",
                                                             "unknown_kind", "shorter_record",   "malformed",
                                                             "duplicate",    "foreign_process",  "too_many_rows"};
  return names[static_cast<size_t>(refusal)];
}

ItemStore::Block PlainStore::allocate() {
  memory_.emplace_back(4096);
  return {reinterpret_cast<std::byte*>(memory_.back().data()), memory_.back().size()};
}

uint64_t Trace::total_captured() const { return std::accumulate(captured.begin(), captured.end(), uint64_t{0}); }
uint64_t Trace::total_refused() const { return std::accumulate(refused.begin(), refused.end(), uint64_t{0}); }

Trace make_trace(const Input& input, const Options& options, ItemStore& items) {
  Trace trace;
  walk(input, options, items, &trace);
  Maker maker(input, options, items, &trace);
  maker.make();
  maker.warn();
  return trace;
}

}  // namespace kineto_spyre::trace
