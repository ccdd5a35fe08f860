// A client as most public ones are: plain heap buffers of 32 MiB, kept in a queue in the order of the requests, whose
// front one is taken when a buffer is completed, whatever buffer the library names. It reads within the completion, to
// the first result that is not success, and frees the buffer then. A session ends by flush, disable, flush.
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "program.h"

namespace {

constexpr size_t kBufferBytes = 32 << 20;
constexpr AIUpti_ActivityKind kDeviceKinds[] = {AIUPTI_ACTIVITY_KIND_CMPT, AIUPTI_ACTIVITY_KIND_MEMCPY,
                                                AIUPTI_ACTIVITY_KIND_MEMSET};

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};

std::mutex g_mutex;
std::deque<std::unique_ptr<uint8_t, Free>> g_lent;
std::vector<clients::Seen> g_seen;

void on_request(uint8_t** buffer, size_t* size, size_t* max_records) {
  std::lock_guard lock(g_mutex);
  g_lent.emplace_back(static_cast<uint8_t*>(std::malloc(kBufferBytes)));
  *buffer = g_lent.back().get();
  *size = kBufferBytes;
  *max_records = 0;
}

void on_complete(uint8_t*, size_t, size_t valid) {
  std::unique_ptr<uint8_t, Free> front;
  {
    std::lock_guard lock(g_mutex);
    if (g_lent.empty()) return;
    front = std::move(g_lent.front());
    g_lent.pop_front();
  }
  AIUpti_Activity* record = nullptr;
  while (aiuptiActivityGetNextRecord(front.get(), valid, &record) == AIUPTI_SUCCESS) clients::keep(record, &g_seen);
}

std::vector<clients::Seen> session(bool with_calls) {
  g_seen.clear();
  REQUIRE(aiuptiActivityRegisterCallbacks(on_request, on_complete) == AIUPTI_SUCCESS);
  for (const AIUpti_ActivityKind kind : kDeviceKinds) REQUIRE(aiuptiActivityEnable(kind) == AIUPTI_SUCCESS);
  if (with_calls) REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  clients::run_program();
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  for (const AIUpti_ActivityKind kind : kDeviceKinds) REQUIRE(aiuptiActivityDisable(kind) == AIUPTI_SUCCESS);
  if (with_calls) REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  REQUIRE(g_lent.empty());
  return g_seen;
}

}  // namespace

TEST_CASE("a client that takes the front one of its lent buffers records 19 of 19 in each of three sessions") {
  static_assert(clients::kDeviceRecords == 19);
  clients::start_machine();
  const bool with_calls = GENERATE(false, true);
  for (int i = 0; i < 3; ++i) clients::check_session(session(with_calls), clients::kDeviceRecords, with_calls);
}

TEST_CASE("given a buffer a thread, such a client loses records: the fault shows it") {
  clients::start_machine();
  REQUIRE(spyreSetFaults("buffer_per_thread") == SPYRE_SUCCESS);
  g_seen.clear();
  REQUIRE(aiuptiActivityRegisterCallbacks(on_request, on_complete) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  clients::check(spyreRecordApi(1, 1000, 2000, 0));  // this thread's buffer is requested first
  constexpr size_t kMany = kBufferBytes / sizeof(AIUpti_ActivityAPI) + 1;
  std::thread([] {  // and the other's is full first
    for (size_t i = 0; i < kMany; ++i) spyreRecordApi(2, 1000, 2000, 0);
  })
      .join();
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  REQUIRE(spyreSetFaults(nullptr) == SPYRE_SUCCESS);
  REQUIRE(g_seen.size() < kMany);
}
