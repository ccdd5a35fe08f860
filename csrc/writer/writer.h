// From a finished trace to a file, without Kineto. The door of this room; it knows neither PyTorch nor Kineto.
//
//   write_perfetto   Perfetto's protobuf: what its UI and its trace processor read, and a small part of the JSON
//   write_json       the JSON that Kineto writes, for whatever reads that
//
// In: the events of a trace (csrc/trace), and the ops and ranges of the host, which no profiler session recorded. Both
// files hold the same: slices of the host's threads and of the devices' tracks, an arrow from each launch to each piece
// of its work, the device ranges, and the metadata of the recording. Neither changes what it reads.
//
// Out: bytes, to a Sink. Times are nanoseconds since the Unix epoch; in the JSON microseconds since
// baseTimeNanoseconds. A Sink that fails is not an error here: it says so itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace kineto_spyre::writer {

// An op, or a record_function range.
struct HostSlice {
  int64_t begin, end;
  uint64_t external_id;  // 0: none
  std::string_view name;
  int32_t tid;
  bool range;
};

struct Document {
  trace::EventStore* events;
  const trace::Trace* trace;
  std::span<const HostSlice> host;
  // Of the slices' threads. trace::Event::link - 1 is an index into trace->ops, which holds ids of ops: a place in
  // `all_ops` plus 1.
  std::span<const HostSlice> all_ops;
  std::vector<std::pair<int32_t, std::string>> threads;  // tid and name
  std::vector<std::string> range_names;                  // of trace->ranges, by index
  int64_t process = 0;
  std::string process_name;
  int64_t window_begin = 0, window_end = 0;
  std::string metadata;           // a JSON object: the trace's key kineto_spyre
  std::string device_properties;  // a JSON array
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const char* data, size_t size) = 0;
};

// Slices and arrows in the file.
struct Written {
  uint64_t slices = 0;
  uint64_t arrows = 0;
};

// Both throw std::bad_alloc, and whatever the sink throws.
Written write_perfetto(const Document& document, Sink& sink);
Written write_json(const Document& document, Sink& sink);

}  // namespace kineto_spyre::writer
