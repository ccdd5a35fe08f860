// What an event is called in a trace, and what its arguments are: from its record, when a file is written.
#pragma once

#include <string>

#include "trace/event.h"
#include "trace/trace.h"

namespace kineto_spyre::trace {

std::string name_of(const Event& event);
// Members of a JSON object, without its braces.
std::string metadata_of(const Event& event, const Track& track);

}  // namespace kineto_spyre::trace
