// Stands in for libaiupti: a thread that writes to the buffers it was lent, whatever they are.
//
// Each record says who wrote it and which of its records it is, and carries a checksum of that: a torn, doubled,
// dropped or misplaced record shows. Producers know what they produced; the test compares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "capture/capture.h"

namespace kineto_spyre::capture::testing {

struct TestRecord {
  uint64_t producer;
  uint64_t sequence;
  uint64_t filling[9];
  uint64_t checksum;
};
static_assert(sizeof(TestRecord) == 96);

inline uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

// The stores are atomic (relaxed), because two borrowers may have the same memory: the sink, which any number of
// requests get once all scratch buffers are lent, and which nobody reads (capture/scratch_buffers.h). A reader that
// does not come after the borrower is still a race that ThreadSanitizer sees, because whole() reads plainly; and two
// that share a buffer that is read leave torn records.
inline void store(uint64_t& word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELAXED); }

inline void fill(TestRecord& record, uint64_t producer, uint64_t sequence) {
  store(record.producer, producer);
  store(record.sequence, sequence);
  uint64_t sum = mix(producer) ^ mix(sequence);
  for (uint64_t& word : record.filling) {
    const uint64_t value = mix(sum);
    store(word, value);
    sum += value;
  }
  store(record.checksum, sum);
}

inline bool whole(const TestRecord& record) {
  TestRecord expected;
  fill(expected, record.producer, record.sequence);
  return std::memcmp(&record, &expected, sizeof(record)) == 0;
}

// What Config::count_records wants: borrowers write nothing else.
inline uint64_t count_test_records(uint8_t*, size_t valid) noexcept { return valid / sizeof(TestRecord); }

class Borrower {
 public:
  explicit Borrower(uint64_t producer) : producer_(producer) {}

  void write() {
    if (room_ < sizeof(TestRecord)) {
      give_back();
      size_t max_records = 0;
      on_buffer_requested(&buffer_, &size_, &max_records);
      room_ = size_;
    }
    const uint64_t sequence = produced_++;
    fill(*reinterpret_cast<TestRecord*>(buffer_ + (size_ - room_)), producer_, sequence);
    room_ -= sizeof(TestRecord);
  }

  void give_back() {
    if (buffer_ != nullptr) on_buffer_completed(buffer_, size_, size_ - room_);
    buffer_ = nullptr;
    size_ = room_ = 0;
  }

  uint64_t produced() const { return produced_; }

 private:
  uint64_t producer_;
  uint64_t produced_ = 0;
  uint8_t* buffer_ = nullptr;
  size_t size_ = 0;
  size_t room_ = 0;
};

// What was delivered, checked record by record.
struct Delivered {
  std::map<uint64_t, uint64_t> records;  // by producer
  std::map<uint64_t, uint64_t> next;     // sequence number that may come next, by producer
  uint64_t torn = 0;
  uint64_t inversions = 0;  // also doubled ones

  void add(const Buffer& buffer) {
    for (size_t at = 0; at + sizeof(TestRecord) <= buffer.valid; at += sizeof(TestRecord)) {
      const auto& record = *reinterpret_cast<const TestRecord*>(buffer.data + at);
      if (!whole(record)) {
        ++torn;
        continue;
      }
      uint64_t& expected = next[record.producer];
      inversions += record.sequence < expected;
      expected = record.sequence + 1;
      ++records[record.producer];
    }
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const auto& [producer, count] : records) sum += count;
    return sum;
  }
};

}  // namespace kineto_spyre::capture::testing
