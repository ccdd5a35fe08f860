// Whatever becomes of buffers: each record that was made is delivered once, or counted as dropped.
#include <set>

#include "testing.h"

using namespace testing;

namespace {

uint64_t calls_a_thread() {
  const char* wanted = std::getenv("KINETO_SPYRE_TEST_RECORDS");
  return wanted == nullptr ? 20'000 : std::min<uint64_t>(std::strtoull(wanted, nullptr, 10) / 20, 1'000'000);
}

void conserve(uint32_t threads, const std::string& faults_wanted, bool drops) {
  machine(1);
  Faults faults(faults_wanted);
  Client client(8192, 0);
  const uint64_t each = calls_a_thread();
  std::atomic<uint32_t> running{threads};
  std::vector<std::thread> makers;
  for (uint32_t t = 0; t < threads; ++t) {
    makers.emplace_back([&, t] {
      for (uint64_t i = 0; i < each; ++i) spyreRecordApi(99, 1, 2, t * each + i);  // its number, told in `data`
      --running;
    });
  }
  size_t dropped = 0;
  while (running != 0) {
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    dropped += client.dropped();
    usleep(500);
  }
  for (auto& maker : makers) maker.join();
  client.disable();
  client.collect(false);
  dropped += client.dropped();
  OK(spyreSetFaults(nullptr));
  client.collect(false);  // what rotate_at_flush requested ahead comes back

  std::set<uint64_t> numbers;
  const auto calls = client.calls(99);
  for (const auto& call : calls) numbers.insert(call.data);
  INFO(threads << " threads, faults '" << faults_wanted << "', dropped " << dropped);
  CHECK(client.read_errors().empty());
  CHECK(numbers.size() == calls.size());  // none twice
  CHECK(calls.size() + dropped == threads * each);
  CHECK((dropped != 0) == drops);
  CHECK(client.out() == 0);
}

}  // namespace

TEST_CASE("each record that threads make while somebody flushes is delivered once or counted as dropped") {
  const uint32_t threads = GENERATE(1u, 2u, 3u, 8u);
  SECTION("all are delivered") { conserve(threads, "", false); }
  SECTION("a buffer a thread") { conserve(threads, "buffer_per_thread", false); }
  SECTION("a buffer is requested at each flush") { conserve(threads, "rotate_at_flush,attributes", false); }
  SECTION("no further buffers") { conserve(threads, "no_buffers=3", true); }
  SECTION("no further buffers of a thread's own") { conserve(threads, "no_buffers=3,buffer_per_thread", true); }
}
