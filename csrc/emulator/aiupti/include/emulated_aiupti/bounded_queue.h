// A bounded queue of many writers and many readers, without locks (Vyukov's cells).
//
//   cells   | turn, value | turn, value | ... |      position p uses cell p % kCells
//
// A cell's turn tells whose it is: 2*lap for who writes in that lap, 2*lap + 1 for who reads in it. A position is taken
// by moving tail (writers) or head (readers); the cell is handed over by its turn.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace kineto_spyre::emulator {

template <typename Value, uint64_t kCells>
class BoundedQueue {
 public:
  // False: full.
  bool push(const Value& value) {
    Cell* const cell = take(tail_, 0);
    if (cell == nullptr) return false;
    cell->value = value;
    cell->turn.fetch_add(1, std::memory_order_release);  // partner: take()'s acquire in pop()
    return true;
  }

  // False: empty.
  bool pop(Value* value) {
    Cell* const cell = take(head_, 1);
    if (cell == nullptr) return false;
    *value = cell->value;
    cell->turn.fetch_add(1, std::memory_order_release);  // partner: take()'s acquire in push()
    return true;
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn{0};
    Value value{};
  };

  // The next cell of this side, now the caller's; null if the other side has not come so far.
  Cell* take(std::atomic<uint64_t>& position, uint64_t side) {
    uint64_t at = position.load(std::memory_order_relaxed);  // who wins the exchange has the place; the turn orders
    while (true) {
      Cell& cell = cells_[at % kCells];
      const uint64_t mine = 2 * (at / kCells) + side;
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);  // partner: push()'s or pop()'s release
      if (turn == mine) {
        if (position.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) return &cell;
      } else if (turn < mine) {
        return nullptr;
      } else {
        at = position.load(std::memory_order_relaxed);
      }
    }
  }

  std::array<Cell, kCells> cells_{};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) std::atomic<uint64_t> head_{0};
};

}  // namespace kineto_spyre::emulator
