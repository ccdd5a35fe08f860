// Everything at once. Under ThreadSanitizer this is the test that matters.
#include <sys/wait.h>

#include <map>
#include <random>

#include "testing.h"

using namespace testing;

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZE_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define SANITIZE_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZE_ADDRESS
#elif __has_feature(thread_sanitizer)
#define SANITIZE_THREAD
#endif
#endif

namespace {

constexpr int kForks = 50;

int rounds() {
  const char* wanted = std::getenv("KINETO_SPYRE_TEST_ROUNDS");
  return wanted == nullptr ? 200 : std::atoi(wanted);
}

}  // namespace

TEST_CASE("8 streams on 2 devices from 8 host threads, with a flusher and a reader beside them") {
  machine(2);
  constexpr int kThreads = 8;
  std::atomic<uint64_t> launches{0}, functions{0}, copies{0}, allocations{0};
  Client client(4096);
  std::atomic<bool> stop{false};
  std::thread flusher([&] {
    while (!stop) {
      aiuptiFlushAllActivities();
      client.read();
      usleep(2000);
    }
  });
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const int32_t device = t % 2;
      const auto expect = [&](spyreError_t error) {
        if (error != SPYRE_SUCCESS) ++failures;
      };
      spyreStream_t own = nullptr;
      expect(spyreStreamGet(device, 1 + static_cast<uint32_t>(t) / 2, &own));
      spyreEvent_t event = nullptr;
      expect(spyreEventCreate(device, 1, &event));
      std::vector<char> host(4096);
      std::minstd_rand random(static_cast<unsigned>(t));
      for (int i = 0; i < rounds(); ++i) {
        void* block = nullptr;
        expect(spyreMalloc(device, 4096, own, &block));
        ++allocations;
        spyreKernel_t k = kernel("stress", static_cast<int64_t>(random() % 3000), 1 + static_cast<int>(random() % 3));
        if (random() % 4 == 0) {
          k.work = [](void* counter) { ++*static_cast<std::atomic<uint64_t>*>(counter); };
          k.work_arg = &functions;
        }
        expect(spyreLaunchKernel(device, own, &k));
        launches += static_cast<uint64_t>(k.count);
        expect(spyreMemcpy(device, block, host.data(), 4096, SPYRE_MEMCPY_HTOD, own,
                           random() % 2 == 0 ? SPYRE_ASYNC : SPYRE_EAGER));
        ++copies;
        expect(spyreEventRecord(event, device, own));
        spyreStream_t other = nullptr;
        expect(spyreStreamGet(1 - device, 1 + random() % 4, &other));
        expect(spyreStreamWaitEvent(1 - device, other, event));
        switch (random() % 8) {
          case 0:
            expect(spyreDeviceSynchronize(device));
            break;
          case 1:
            expect(spyreEventSynchronize(event));
            break;
          case 2:
            spyreEventQuery(event);
            spyreStreamQuery(device, own);
            break;
          default:
            break;
        }
        expect(spyreStreamSynchronize(device, own));  // before the block goes
        expect(spyreFree(device, block));
      }
      expect(spyreEventDestroy(event));
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  flusher.join();
  client.collect();
  REQUIRE(failures == 0);
  REQUIRE(client.dropped() == 0);
  REQUIRE(client.read_errors().empty());
  REQUIRE(client.kernels().size() == launches);
  REQUIRE(client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY).size() == copies);
  REQUIRE(client.of<AIUpti_ActivityMemory>(AIUPTI_ACTIVITY_KIND_MEMORY).size() == 2 * allocations);
  // On one stream nothing overlaps, and correlation ids lead to a launch.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::pair<uint64_t, uint64_t>>> rows;
  std::map<uint32_t, uint64_t> launched;
  for (const auto& call : client.calls()) launched[call.correlation_id] = call.start;
  for (const auto& k : client.kernels()) {
    rows[{k.device_id, k.stream_id}].emplace_back(k.start, k.end);
    REQUIRE(launched.contains(k.correlation_id));
    REQUIRE(launched[k.correlation_id] <= k.start);
  }
  for (auto& [row, spans] : rows) {
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i) REQUIRE(spans[i - 1].second <= spans[i].first);
  }
}

TEST_CASE("clients come and go while threads work") {
  machine(2);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const spyreKernel_t k = kernel("busy", 500);
        for (int i = 0; i < 50; ++i) spyreLaunchKernel(t % 2, nullptr, &k);
        spyreDeviceSynchronize(t % 2);
      }
    });
  }
  size_t out = 0, errors = 0;
  for (int i = 0; i < rounds() / 8; ++i) {
    Client client(4096);
    usleep(1000);
    client.disable();
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    out += client.out();
    client.read();
    errors += client.read_errors().size();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  OK(spyreDeviceSynchronize(0));
  OK(spyreDeviceSynchronize(1));
  REQUIRE(out == 0);  // all kinds disabled and a flush done: no buffer is out
  REQUIRE(errors == 0);
}

TEST_CASE("faults come and go while threads work") {
  machine(2);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      spyreEvent_t event;
      spyreEventCreate(t % 2, 0, &event);
      while (!stop) {
        spyreKernel_t k = kernel("busy", 500);
        if (t == 0) k.work = [](void*) {};
        spyreLaunchKernel(t % 2, nullptr, &k);
        spyreEventRecord(event, t % 2, nullptr);
        spyreStreamWaitEvent(1 - t % 2, nullptr, event);
        spyreDeviceSynchronize(t % 2);
      }
      spyreEventDestroy(event);
    });
  }
  Client client(4096);
  const char* specifications[] = {"hang=1,timeout=1ms",
                                  "device_lost=3",
                                  "",
                                  "late=1ms,duplicate=2",
                                  "size=+40",
                                  "early=1",
                                  "device_lost=0:0,hang=1:1,timeout=2ms"};
  for (int i = 0; i < rounds() / 4; ++i) {
    OK(spyreSetFaults(specifications[static_cast<size_t>(i) % std::size(specifications)]));
    usleep(3000);
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    client.read();
  }
  OK(spyreSetFaults(nullptr));
  stop = true;
  for (auto& thread : threads) thread.join();
  client.collect();
  REQUIRE(client.read_errors().empty());
}

// A sanitizer's own threads and locks don't survive a fork of many threads: a child waited for ever for a lock of
// AddressSanitizer's allocator, which a thread of the parent held.
#if !defined(SANITIZE_THREAD) && !defined(SANITIZE_ADDRESS)
TEST_CASE("the child of a fork has no machine and no libaiupti, hangs in nothing, and can start anew") {
  machine(1);
  Client client(4096);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        const spyreKernel_t k = kernel("busy", 500);
        spyreLaunchKernel(0, nullptr, &k);
        spyreDeviceSynchronize(0);
        void* block;
        if (spyreMalloc(0, 1000, nullptr, &block) == SPYRE_SUCCESS) spyreFree(0, block);
        aiuptiFlushAllActivities();
      }
    });
  }
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a hang ends the child by a signal
      const spyreKernel_t k = kernel("in the child", 1000);
      bool fine = spyreIsInitialized() == 0 && spyreIsTracing() == 0 &&
                  spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_NOT_INITIALIZED &&
                  std::strstr(spyreGetLastErrorString(), "forked") != nullptr &&
                  aiuptiFlushAllActivities() == AIUPTI_SUCCESS;
#if !defined(UNDER_QEMU)  // which can't start threads in the child of a process that had some
      const spyreConfig_t config{2, 1 << 20, SPYRE_TIME_MODELLED, 0, 0};
      fine = fine && spyreInit(&config) == SPYRE_SUCCESS && spyreLaunchKernel(1, nullptr, &k) == SPYRE_SUCCESS &&
             spyreDeviceSynchronize(1) == SPYRE_SUCCESS &&
             aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_SUCCESS &&
             spyreLaunchKernel(1, nullptr, &k) == SPYRE_SUCCESS && aiuptiFlushAllActivities() == AIUPTI_SUCCESS;
#endif
      _exit(fine ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  client.collect();
  REQUIRE(client.read_errors().empty());
}
#endif
