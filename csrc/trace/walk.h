// From lent buffers to checked items.
#pragma once

#include "trace/trace.h"

namespace kineto_spyre::trace {

// Walks every buffer with the library's walker, always to its end, and appends an item for each record that is sound in
// itself: kind, size, place, times. Counts the others in trace->refused. Item::id and Item::lane are not set.
void walk(const Input& input, const Options& options, ItemStore& items, Trace* trace);

}  // namespace kineto_spyre::trace
