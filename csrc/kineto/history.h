// What sessions leave behind for whoever asks later: how many there were, what the last one found and cost. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "trace/text.h"
#include "trace/trace.h"

namespace kineto_spyre::kineto {

using RecordSizes = decltype(trace::Trace::sizes);  // by kind of record

// What the last stop cost, in processor time.
struct Cost {
  uint64_t records = 0;
  int64_t reading_ns = 0;       // from buffers to a trace: read, check, join, align, place
  int64_t handing_over_ns = 0;  // from there to Kineto
  size_t activity_bytes = 0;    // memory of the activities, beyond the records
};

class History {
 public:
  // A session is live from configure until it is stopped or given up.
  void session_began();
  void session_over();
  bool is_recording() const;

  void set_last_session(std::string json, const RecordSizes& sizes);
  void set_last_cost(const Cost& cost);
  // The report of the last session, "" before the first one.
  std::string last_session() const;
  // Members of the status: sessions, records (sizes by kind), last_stop.
  void add_to(trace::JsonObject& status) const;

 private:
  mutable std::mutex mutex_;
  uint64_t sessions_ = 0;
  uint64_t live_ = 0;  // of them
  std::string last_session_;
  Cost last_cost_;
  RecordSizes sizes_{};
};

}  // namespace kineto_spyre::kineto
