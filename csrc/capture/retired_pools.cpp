#include "capture/retired_pools.h"

#include <array>
#include <atomic>
#include <memory>

#include "capture/in_flight.h"

namespace kineto_spyre::capture::retired_pools {
namespace {

struct Place {
  constexpr Place() noexcept : owner() {}
  ~Place() {}                        // not the owner's: a borrower may write while the process ends
  std::atomic<Pool*> pool{nullptr};  // for callbacks
  union {
    std::shared_ptr<Pool> owner;  // control's
  };
  bool left_by_parent = false;  // the place is taken for good
};
constinit std::array<Place, 64> places;

}  // namespace

void add(const std::shared_ptr<Pool>& pool) noexcept {
  for (Place& place : places) {
    if (place.owner) continue;
    place.owner = pool;
    // Sequentially consistent, as all of the places' pools; partner is the load in complete().
    place.pool.store(pool.get(), std::memory_order_seq_cst);
    return;
  }
  pool->keep_for_good(pool);
}

void sweep() noexcept {
  for (Place& place : places) {
    if (!place.owner || place.left_by_parent || place.owner->out() != 0) continue;
    place.pool.store(nullptr, std::memory_order_seq_cst);
    wait_for_callbacks();
    place.owner.reset();
  }
}

Pool::Completion complete(uint8_t* buffer, size_t valid) noexcept {
  for (Place& place : places) {
    Pool* pool = place.pool.load(std::memory_order_seq_cst);
    if (pool != nullptr && pool->contains(buffer)) return pool->complete_late(buffer, valid);
  }
  return Pool::Completion::kUnknown;
}

void collect(const std::function<void(const std::shared_ptr<Pool>&, uint32_t index, const Buffer&)>& visit) {
  for (Place& place : places) {
    if (!place.owner || place.left_by_parent) continue;
    place.owner->collect_late([&](uint32_t index, const Buffer& buffer) { visit(place.owner, index, buffer); });
  }
}

void forget_after_fork() noexcept {
  for (Place& place : places) {
    place.pool.store(nullptr, std::memory_order_relaxed);
    place.left_by_parent = place.owner != nullptr;  // not freed: a borrower of this process may still write there
  }
}

}  // namespace kineto_spyre::capture::retired_pools
