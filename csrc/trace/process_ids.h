// By which process id the records know this program.
//
// In: the buffers, the ids of the threads that made op events, the system's id of this process. Out: the process id
// that host calls of this program bear. Nearly always it is the system's. A library that asks a driver or a daemon may
// get the id of another pid namespace (a container's program has one id within and another outside). Then no record
// bears ours, all bear one and the same other id, and either one of their threads is a thread of this program or no
// process here has that id. Only if all of that holds are they taken as this program's: a library may also deliver
// what another process did.
//
// A pass over all records is made only if no buffer's first host call bears our id, and one may bear another.
#pragma once

#include <cstdint>

#include "trace/trace.h"

namespace kineto_spyre::trace {

// Options::process_id, or the other one. The iterations that it makes are run to their ends.
uint32_t process_id_of_records(const Input& input, const Options& options);

}  // namespace kineto_spyre::trace
