#include <sys/mman.h>

#include <set>

#include "testing.h"

using namespace testing;

namespace {

// Of the range, what the system has given memory for.
uint64_t resident_bytes(const void* begin, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = (reinterpret_cast<uint64_t>(begin) + page - 1) / page * page;
  std::vector<unsigned char> pages(bytes / page - 1);
  REQUIRE(mincore(reinterpret_cast<void*>(first), pages.size() * page, pages.data()) == 0);
  return static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; })) * page;
}

}  // namespace

TEST_CASE("device memory can be used where it is, is aligned to sticks, and comes back") {
  machine(1);
  uint64_t before, after, total;
  OK(spyreMemGetInfo(0, &before, &total));
  REQUIRE(before == total);
  std::vector<void*> blocks;
  for (uint64_t bytes : {1u, 127u, 128u, 129u, 100'000u}) {
    void* block = nullptr;
    OK(spyreMalloc(0, bytes, nullptr, &block));
    REQUIRE(reinterpret_cast<uintptr_t>(block) % 128 == 0);
    std::memset(block, static_cast<int>(bytes), bytes);
    blocks.push_back(block);
  }
  REQUIRE(static_cast<unsigned char*>(blocks[3])[128] == 129);
  OK(spyreMemGetInfo(0, &after, &total));
  REQUIRE(after == before - (128 + 128 + 128 + 256 + 100'096));
  for (void* block : blocks) OK(spyreFree(0, block));
  OK(spyreMemGetInfo(0, &after, &total));
  REQUIRE(after == before);
}

TEST_CASE("neighbouring free blocks join, whatever the order they come back in") {
  machine(1);
  const uint64_t quarter = 16u << 20;
  for (const auto& order : {std::vector<int>{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}}) {
    void* blocks[4];
    for (void*& block : blocks) OK(spyreMalloc(0, quarter, nullptr, &block));
    for (int i : order) OK(spyreFree(0, blocks[i]));
    void* whole = nullptr;
    OK(spyreMalloc(0, 4 * quarter, nullptr, &whole));
    OK(spyreFree(0, whole));
  }
}

TEST_CASE("zero bytes have an address of their own") {
  machine(1);
  std::set<void*> addresses;
  for (int i = 0; i < 10; ++i) {
    void* block = nullptr;
    OK(spyreMalloc(0, 0, nullptr, &block));
    REQUIRE(block != nullptr);
    REQUIRE(addresses.insert(block).second);
  }
  for (void* block : addresses) OK(spyreFree(0, block));
}

TEST_CASE("out of memory says how much was asked for and how much is free") {
  machine(1);
  void *half = nullptr, *block = nullptr;
  OK(spyreMalloc(0, 32u << 20, nullptr, &half));
  REQUIRE(spyreMalloc(0, 40u << 20, nullptr, &block) == SPYRE_ERROR_OUT_OF_MEMORY);
  const std::string sentence = spyreGetLastErrorString();
  REQUIRE(sentence.find("41943040 bytes") != std::string::npos);
  REQUIRE(sentence.find("33554432 of 67108864") != std::string::npos);
  REQUIRE(spyreMalloc(0, UINT64_MAX, nullptr, &block) == SPYRE_ERROR_OUT_OF_MEMORY);
  OK(spyreFree(0, half));
}

TEST_CASE("memory is taken from the system when it is touched, and given back when it is freed") {
  machine(1, SPYRE_TIME_MODELLED, uint64_t{4} << 30);
  void* block = nullptr;
  const uint64_t size = uint64_t{3} << 30;
  OK(spyreMalloc(0, size, nullptr, &block));
  REQUIRE(resident_bytes(block, size) == 0);
  std::memset(block, 1, 64u << 20);
  REQUIRE(resident_bytes(block, size) >= (63u << 20));
  REQUIRE(resident_bytes(block, size) <= (70u << 20));
  OK(spyreFree(0, block));
  REQUIRE(resident_bytes(block, size) == 0);
}

TEST_CASE("freeing what is not allocated is refused with the address") {
  machine(1);
  void* block = nullptr;
  OK(spyreMalloc(0, 256, nullptr, &block));
  REQUIRE(spyreFree(0, static_cast<char*>(block) + 128) == SPYRE_ERROR_INVALID_VALUE);
  OK(spyreFree(0, block));
  REQUIRE(spyreFree(0, block) == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(std::string(spyreGetLastErrorString()).find("freed before") != std::string::npos);
  int on_the_host = 0;
  REQUIRE(spyreFree(0, &on_the_host) == SPYRE_ERROR_INVALID_VALUE);
}

TEST_CASE("an address tells its device") {
  machine(2);
  void *first, *second;
  OK(spyreMalloc(0, 1000, nullptr, &first));
  OK(spyreMalloc(1, 1000, nullptr, &second));
  REQUIRE(spyrePointerDevice(static_cast<char*>(first) + 999) == 0);
  REQUIRE(spyrePointerDevice(second) == 1);
  int on_the_host = 0;
  REQUIRE(spyrePointerDevice(&on_the_host) == -1);
  REQUIRE(spyrePointerDevice(nullptr) == -1);
  OK(spyreFree(0, first));
  OK(spyreFree(1, second));
}
