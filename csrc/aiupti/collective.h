// The collective that work belongs to, in releases of libaiupti whose records tell it.
//
// In: a compute or copy record, and its size. Out: group, algorithm and bytes, or nothing. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "aiupti/records.h"

namespace kineto_spyre::aiupti {

struct Collective {
  uint32_t group, algorithm;
  uint64_t bytes;
};
// What the emulated library appends to a record for it where the header that was found lacks the fields. Of a real
// library, whose order of these fields nobody states, it is not taken.
struct CollectiveTail {
  uint32_t call;  // the correlation id
  uint32_t coll_group;
  uint32_t coll_algo;
  uint64_t coll_bytes;
};
// Whether a record of that size ends with one.
template <AnyRecord R>
bool has_collective_tail(const R& record, size_t size) {
  if constexpr (!requires { record.coll_group; } && requires { record.cycles_ts5; }) {
    CollectiveTail tail;
    if (size != sizeof(R) + sizeof(tail)) return false;
    std::memcpy(&tail, reinterpret_cast<const char*>(&record) + sizeof(R), sizeof(tail));
    return tail.call == correlation_id(record);
  }
  return false;
}
// size: the record's bytes, as far as this build reads it. nullopt for work that belongs to no collective.
template <AnyRecord R>
std::optional<Collective> collective(const R& record, size_t size) {
  Collective found{};
  if constexpr (requires { record.coll_group, record.coll_algo, record.coll_bytes; }) {
    if (size < sizeof(R)) return std::nullopt;
    found = {static_cast<uint32_t>(record.coll_group), static_cast<uint32_t>(record.coll_algo),
             static_cast<uint64_t>(record.coll_bytes)};
  } else {
    CollectiveTail tail;
    if (size < sizeof(R) + sizeof(tail)) return std::nullopt;
    std::memcpy(&tail, reinterpret_cast<const char*>(&record) + sizeof(R), sizeof(tail));
    found = {tail.coll_group, tail.coll_algo, tail.coll_bytes};
  }
  if (found.group == 0 && found.algorithm == 0 && found.bytes == 0) return std::nullopt;
  return found;
}

}  // namespace kineto_spyre::aiupti
