// The callbacks that are running: who wants to take something away that they use first unlinks it, then waits.
//
//    callback                            whoever takes the capture away
//    in_flight += 1   (seq_cst)          current = null              (seq_cst)
//    c = current      (seq_cst)          wait until in_flight == 0   (seq_cst; acquire: partner of the release below)
//    use c                               c is ours alone
//    in_flight -= 1   (release)
//
// A callback that counted itself in before is waited for; one that did so after finds nothing.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace kineto_spyre::capture {

alignas(64) inline constinit std::atomic<uint32_t> callbacks_in_flight{0};

class InFlight {
 public:
  // Sequentially consistent: see above.
  InFlight() noexcept { callbacks_in_flight.fetch_add(1, std::memory_order_seq_cst); }
  ~InFlight() { callbacks_in_flight.fetch_sub(1, std::memory_order_release); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
};

inline void wait_for_callbacks() noexcept {
  while (callbacks_in_flight.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace kineto_spyre::capture
