// The one buffer that records go into, alone: records of 8 bytes each, or 16, of kinds 1 and 2.
#include "emulated_aiupti/current_buffer.h"

#include <deque>

#include "testing.h"

using kineto_spyre::emulator::Buffer;
using kineto_spyre::emulator::CurrentBuffer;
using kineto_spyre::emulator::Shape;

namespace {

struct Completed {
  std::vector<uint8_t> bytes;
  Shape shape;
};

size_t g_size, g_max_records, g_left;
std::deque<std::vector<uint8_t>> g_memory;
std::vector<Completed> g_completed;

bool request(Buffer* buffer) {
  if (g_left == 0) return false;
  --g_left;
  g_memory.emplace_back(g_size);
  *buffer = {g_memory.back().data(), g_size, g_max_records, nullptr};
  return true;
}
void complete(const Buffer& buffer, size_t valid, Shape shape) {
  g_completed.push_back({{buffer.data, buffer.data + valid}, shape});
}
size_t size_of(const uint8_t*, Shape shape) { return static_cast<size_t>(8 + shape.compute_extra); }

struct Fixture {
  explicit Fixture(size_t size, size_t max_records = 0, size_t buffers = 100) {
    g_size = size, g_max_records = max_records, g_left = buffers;
    g_memory.clear(), g_completed.clear();
  }
  CurrentBuffer current{{request, complete, size_of}};

  uint64_t append(std::vector<uint8_t> kinds, Shape shape = {}) {
    std::vector<uint8_t> bytes;
    for (const uint8_t kind : kinds) bytes.resize(bytes.size() + size_of(nullptr, shape), kind);
    return current.append(bytes.data(), bytes.size(), shape);
  }
  std::vector<size_t> sizes() const {
    std::vector<size_t> found;
    for (const Completed& completed : g_completed) found.push_back(completed.bytes.size());
    return found;
  }
};

}  // namespace

TEST_CASE("current buffer: records are never split, and a buffer that can take no more is completed") {
  Fixture f(20);
  CHECK(f.append({1, 1, 1, 1, 1}) == 0);
  CHECK(f.sizes() == std::vector<size_t>{16, 16});
  f.current.close();
  f.current.close();
  CHECK(f.sizes() == std::vector<size_t>{16, 16, 8});
}

TEST_CASE("current buffer: no more records than the client allowed") {
  Fixture f(100, 3);
  CHECK(f.append({1, 1}) == 0);
  CHECK(f.append({1, 1, 1}) == 0);
  f.current.close();
  CHECK(f.sizes() == std::vector<size_t>{24, 16});
}

TEST_CASE("current buffer: what finds no buffer, or one that is too small, is counted") {
  Fixture none(16, 0, 1);
  CHECK(none.append({1, 1, 1, 1, 1}) == 3);
  CHECK(none.sizes() == std::vector<size_t>{16});
  Fixture small(4);
  CHECK(small.append({1, 1, 1}) == 3);
  small.current.close();
  for (const size_t size : small.sizes()) CHECK(size == 0);
}

TEST_CASE("current buffer: records of another shape go into another buffer") {
  Fixture f(100);
  CHECK(f.append({1, 1}) == 0);
  CHECK(f.append({1}, {8, 0}) == 0);
  CHECK(f.append({1}) == 0);
  f.current.close();
  CHECK(f.sizes() == std::vector<size_t>{16, 16, 8});
  CHECK(g_completed[1].shape == Shape{8, 0});
  CHECK(g_completed[2].shape == Shape{});
}

TEST_CASE("current buffer: one kind's records are taken out of what is not completed") {
  Fixture f(40);
  CHECK(f.append({1, 2, 1, 2, 2, 1, 2}) == 0);  // five of them are completed
  f.current.remove(2);
  f.current.close();
  CHECK(f.sizes() == std::vector<size_t>{40, 8});
  CHECK(g_completed[1].bytes == std::vector<uint8_t>(8, 1));
  f.current.remove(1);  // there is none
}
