// A client as the newer public ones are: it finds a completed buffer by its address, keeps it until the session's end,
// reads all of them then, and frees each when its iteration has ended. Buffers of 1 MiB. Flush, disable, flush. Beside
// the device's work it records allocations.
#include <map>
#include <memory>
#include <mutex>

#include "program.h"

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr AIUpti_ActivityKind kDeviceKinds[] = {AIUPTI_ACTIVITY_KIND_CMPT, AIUPTI_ACTIVITY_KIND_MEMCPY,
                                                AIUPTI_ACTIVITY_KIND_MEMSET, AIUPTI_ACTIVITY_KIND_MEMORY};
constexpr size_t kRecords = clients::kDeviceRecords + clients::kMemoryRecords;

struct Completed {
  std::unique_ptr<uint8_t[]> memory;
  size_t valid;
};

std::mutex g_mutex;
std::map<uint8_t*, std::unique_ptr<uint8_t[]>> g_lent;
std::vector<Completed> g_completed;

void on_request(uint8_t** buffer, size_t* size, size_t* max_records) {
  auto memory = std::make_unique<uint8_t[]>(kBufferBytes);
  *buffer = memory.get();
  *size = kBufferBytes;
  *max_records = 0;
  std::lock_guard lock(g_mutex);
  g_lent[*buffer] = std::move(memory);
}

void on_complete(uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard lock(g_mutex);
  auto found = g_lent.extract(buffer);
  if (!found.empty()) g_completed.push_back({std::move(found.mapped()), valid});
}

std::vector<clients::Seen> session(bool with_calls) {
  REQUIRE(aiuptiActivityRegisterCallbacks(on_request, on_complete) == AIUPTI_SUCCESS);
  if (with_calls) REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  for (const AIUpti_ActivityKind kind : kDeviceKinds) REQUIRE(aiuptiActivityEnable(kind) == AIUPTI_SUCCESS);
  clients::run_program();
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  for (const AIUpti_ActivityKind kind : kDeviceKinds) REQUIRE(aiuptiActivityDisable(kind) == AIUPTI_SUCCESS);
  if (with_calls) REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  std::vector<clients::Seen> seen;
  std::lock_guard lock(g_mutex);
  REQUIRE(g_lent.empty());
  for (Completed& completed : g_completed) {
    AIUpti_Activity* record = nullptr;
    while (aiuptiActivityGetNextRecord(completed.memory.get(), completed.valid, &record) == AIUPTI_SUCCESS) {
      clients::keep(record, &seen);
    }
    completed.memory.reset();
  }
  g_completed.clear();
  return seen;
}

}  // namespace

TEST_CASE("a client that finds buffers by their address records 23 of 23 in each of three sessions") {
  static_assert(kRecords == 23);
  clients::start_machine();
  const bool with_calls = GENERATE(false, true);
  for (int i = 0; i < 3; ++i) clients::check_session(session(with_calls), kRecords, with_calls);
}

TEST_CASE("such a client records everything with a buffer a thread, and with buffers swapped, too") {
  clients::start_machine();
  const auto* const faults = GENERATE("buffer_per_thread", "swap_buffers", "strange_thread");
  REQUIRE(spyreSetFaults(faults) == SPYRE_SUCCESS);
  for (int i = 0; i < 3; ++i) clients::check_session(session(true), kRecords, true);
  REQUIRE(spyreSetFaults(nullptr) == SPYRE_SUCCESS);
}
