// The rows of a device, and which piece of work stands on which.
//
// Every viewer draws a row as non-overlapping slices, and every analyser checks overlaps by row, so one row number is
// one tid and one args.stream:
//
//   kernels   one row a stream, numbered as the stream; streams from 100 up: 100,000 + stream; stream 0, which some
//             readers take for "none": the lowest free number
//   copies    100 host to device, 200 device to host, 300 device to device, and up to four more rows each for copies
//             that overlap
//   memset    400, memory 500, likewise
//   ranges    600 and up: the record_function ranges of each stream
//
// Kernels that overlap on one stream are a fault of the data: they keep their row and their times, and are counted.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/trace.h"

namespace kineto_spyre::trace {

class Tracks {
 public:
  // A stream's kernels.
  struct Row {
    uint32_t stream;
    int32_t track = -1;
    int64_t last_start = INT64_MIN;
    int64_t last_end = INT64_MIN;
    bool unsettled = false;  // an overlap, a possible duplicate, or work out of order

    // Whether a kernel stands clear of all before it.
    bool is_next(int64_t start) const { return start >= last_end && start > last_start; }
  };

  // Adds rows to trace->tracks; counts and warns there.
  explicit Tracks(Trace* trace) : trace_(trace) {}

  // Sets item.track. False if there is no number left for another row.
  bool place(Item& item, uint32_t device_id, uint32_t stream_id, int64_t start, int64_t end);
  // The row of a stream. Stays where it is.
  Row& row(uint32_t device_id, uint32_t stream_id) { return row(device(device_id), stream_id); }
  // Before all device work is placed again: the rows stay, what stands on them is forgotten.
  void begin_again();
  // After all items: sorts out the rows whose work came out of order, counts overlaps, drops exact duplicates.
  void settle(ItemStore& items);
  // Tracks for spans; sets their tracks (a span's track is that of its stream's kernels until then).
  void place_spans(std::vector<Span>& spans);
  // Adds a row; its index, or -1 if there is no number left.
  int32_t add(Track track);

 private:
  static constexpr size_t kMaxRows = 5;
  static constexpr size_t kMaxTracks = 65'535;
  enum Group : uint8_t { kHtoD, kDtoH, kPtoP, kMemset, kMemory, kGroups };

  struct Copies {
    std::vector<std::pair<uint16_t, int64_t>> rows;  // track, end of its last
    int64_t last_start = INT64_MIN;
    bool unsettled = false;
  };
  struct Device {
    uint32_t id;
    std::deque<Row> rows;
    std::unordered_map<uint32_t, size_t> by_stream;
    Copies copies[kGroups];
    int64_t span_rows = 0;
  };

  Device& device(uint32_t id);
  Row& row(Device& device, uint32_t stream);
  bool place_copy(Copies& copies, Group group, const Device& device, Item& item, int64_t start, int64_t end);
  void settle_row(const Device& device, const Row& row, std::vector<Item*>& items);
  void settle_copies(Device& device, Group group, std::vector<Item*>& items);
  bool drop_duplicate(Item& item, const Item& other);
  static Group group_of(const Item& item);
  void number_stream_zero();

  Trace* trace_;
  std::deque<Device> devices_;
  std::string first_overlap_;
};

}  // namespace kineto_spyre::trace
