// What the records tell about the devices' clocks: launches that work follows, and waits that work precedes.
//
// In, while records are read: each wait (launch joiner), and of each pair of launch and work the time between their
// begins (device events); both are cheap. Out, at the end: whether a device's clock is in doubt at all. Only then all
// work is looked at, and bounds of the clock's offset are collected for clock_alignment.h.
//
// Work begins after its launch: an upper bound. It ends before the end of a wait that began after its launch and waited
// for it: a lower one. A wait is for a device, for a stream, or, if the library doesn't tell, for what its own thread
// launched.
//
// Owns the waits. prepare() comes after all of them, before any question.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/clock_alignment.h"
#include "trace/correlation_table.h"
#include "trace/trace.h"

namespace kineto_spyre::trace {

// A call that waits for device work.
struct Wait {
  static constexpr size_t kAfter = 8;
  int64_t start, end;
  std::array<uint64_t, kAfter> after;  // the correlation ids that its thread launched last before it
  uint32_t tid;                        // 0: not told
  int32_t device;                      // -1: not told
  uint32_t stream;                     // 0: all of the device
};

class ClockEvidence {
 public:
  // Of one device.
  struct DeviceEvidence {
    uint32_t id;
    uint64_t pairs = 0;              // of a launch and its work
    int64_t least_lead = INT64_MAX;  // work's begin minus launch's begin

    void add_pair(int64_t lead) {
      ++pairs;
      least_lead = lead < least_lead ? lead : least_lead;
    }
  };

  void add(const Wait& wait) { waits_.push_back(wait); }
  // Made when it is first asked for; stays where it is.
  DeviceEvidence& device(uint32_t id);
  std::deque<DeviceEvidence>& devices() { return devices_; }
  // Before all device work is placed again.
  void forget_pairs();

  // After all records.
  void prepare();
  // Whether some work seems to end after the wait for it did. Looks at what each thread launched last before it waited,
  // because that ends last; collect() looks at all, if this finds reason to.
  bool behind_a_wait(CorrelationTable& table) const;
  void collect(EventStore& events, CorrelationTable& table, uint32_t device_id, std::vector<Bound>& upper,
               std::vector<Bound>& lower);

 private:
  // The first of some waits that begins at or after a time; fast for times that mostly ascend.
  class WaitList {
   public:
    void add(int64_t start, int64_t end) { waits_.emplace_back(start, end); }
    void sort();
    int64_t end_of_first_from(int64_t ns);

   private:
    std::vector<std::pair<int64_t, int64_t>> waits_;
    size_t cursor_ = 0;
  };

  // The end of the first wait that began after this launch and waited for its work; INT64_MAX if there is none.
  int64_t waited_until(uint32_t device_id, uint32_t stream, const Launch& launch);

  std::vector<Wait> waits_;
  std::deque<DeviceEvidence> devices_;
  std::unordered_map<uint64_t, WaitList> by_stream_;  // device << 32 | stream; stream 0: all of the device
  std::unordered_map<uint32_t, WaitList> by_tid_;
};

}  // namespace kineto_spyre::trace
