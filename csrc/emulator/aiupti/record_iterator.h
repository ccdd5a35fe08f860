// aiuptiActivityGetNextRecord: where the iteration of each buffer is.
//
//   not known -> next() begins at the buffer's start -> ... -> the end, which is told once -> not known
//
// The place is kept for the process, by the buffer's address, and forgotten at the iteration's end only: as the real
// library does. A thread remembers the place that it used last, so that the table is asked once a buffer.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "emulated_aiupti/shape.h"

namespace kineto_spyre::emulator {

class RecordIterator {
 public:
  AIUpti_ResultTypes next(uint8_t* buffer, size_t valid, AIUpti_Activity** record);
  // What shape a buffer's records have. Before it is completed.
  void set_shape(const uint8_t* buffer, Shape shape);
  // In the child of a fork, whose table is another one.
  static void forget();

 private:
  struct Place {
    std::atomic<const uint8_t*> buffer;  // null: free. Release when given out, acquire when remembered
    size_t offset = 0;
    Shape shape;
  };
  Place* find_or_begin(const uint8_t* buffer);
  AIUpti_ResultTypes end(Place* place);

  static thread_local Place* t_place;

  std::mutex mutex_;                            // guards what follows, but for a place's owner's reads
  std::vector<std::unique_ptr<Place>> places_;  // as many as iterations were ever open at once
  std::unordered_map<const uint8_t*, Shape> odd_shapes_;
  std::atomic<bool> any_odd_{false};  // relaxed: set before the buffer is completed
};

}  // namespace kineto_spyre::emulator
