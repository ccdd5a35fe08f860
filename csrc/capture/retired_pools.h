// The pools of sessions that are over, as long as libaiupti may give back a buffer of theirs.
//
// A library that takes its next buffer at each flush holds one when a session ends, and gives it back in the next one:
// what is in it belongs to that one. So a completion that the current pool doesn't know is looked for here, and waits
// in its pool (late) for the end of the session that is under way, whose result shares the ownership of the pool.
//
// Control, one thread at a time, puts pools here and takes them away. Callbacks look for pools at any time. Whoever
// takes one away unlinks it first and then waits for the callbacks that are in flight (in_flight.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "capture/pool.h"

namespace kineto_spyre::capture::retired_pools {

// Control. From now on callbacks find it. A table that is full keeps the pool for good, and its completions are
// unknown.
void add(const std::shared_ptr<Pool>& pool) noexcept;
// Control. Frees, or leaves to their results, the pools that nothing is out of any more.
void sweep() noexcept;

// Callbacks, in flight. kUnknown if the buffer is of none of these pools, or is not lent.
Pool::Completion complete(uint8_t* buffer, size_t valid) noexcept;

// Control. Each buffer that came back since the last call.
void collect(const std::function<void(const std::shared_ptr<Pool>&, uint32_t index, const Buffer&)>& visit);

// In a child, right after fork(): there are none, and nothing is freed.
void forget_after_fork() noexcept;

}  // namespace kineto_spyre::capture::retired_pools
