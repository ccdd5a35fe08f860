// What the real library is known to do is what the emulated one does when no fault is asked for.
#include "testing.h"

using namespace testing;

TEST_CASE("one buffer is out at a time, and buffers come back in the order in which they were lent") {
  machine(2);
  Client client(4096);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) spyreRecordApi(99, 1, 2, 0);
    });
  }
  launch("row", 100, nullptr, 0, 500);
  launch("row", 100, nullptr, 1, 500);
  size_t most_out = 0;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    most_out = std::max(most_out, client.out());
  }
  for (auto& thread : threads) thread.join();
  client.collect();
  REQUIRE(most_out <= 1);
  const std::vector<uint8_t*> lent = client.lent();
  const std::vector<Completion> completions = client.completions();
  REQUIRE(completions.size() == lent.size());
  for (size_t i = 0; i < lent.size(); ++i) REQUIRE(completions[i].buffer == lent[i]);
  REQUIRE(client.calls(99).size() == 8000);
  REQUIRE(client.kernels().size() == 1000);
}

TEST_CASE("copies have cycle stamps of 0") {
  machine(1);
  Client client;
  for (const auto kind : {SPYRE_MEMCPY_HTOD, SPYRE_MEMCPY_DTOH, SPYRE_MEMCPY_PTOP}) {
    OK(spyreMemcpy(0, nullptr, nullptr, 1000, kind, nullptr, SPYRE_ASYNC));
  }
  client.collect();
  auto copies = client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY);
  const auto between = client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY2);
  copies.insert(copies.end(), between.begin(), between.end());
  REQUIRE(copies.size() == 3);
  for (const auto& copy : copies) {
    REQUIRE(copy.end > copy.start);
    REQUIRE((copy.cycles_ts1 | copy.cycles_ts2 | copy.cycles_ts3 | copy.cycles_ts4 | copy.cycles_ts5) == 0);
  }
}

TEST_CASE("cycle stamps have 32 bits and wrap") {
  machine(1, SPYRE_TIME_MODELLED, 32u << 20);
  machine(1);                                  // a machine anew, with its counters at 0
  constexpr uint64_t kLongNs = 5'000'000'000;  // more than 2^32 cycles at 1 GHz
  {
    Faults faults("early=1");  // the records come at once
    Client client;
    launch("long", kLongNs);
    launch("behind", 1000);
    client.collect(false);
    const auto kernels = client.kernels();
    REQUIRE(kernels.size() == 2);
    REQUIRE(kernels[0].cycles_ts1 < kernels[0].cycles_ts2);
    REQUIRE(kernels[0].cycles_ts5 <= UINT32_MAX);
    REQUIRE(static_cast<uint32_t>(kernels[0].cycles_ts5 - kernels[0].cycles_ts1) == static_cast<uint32_t>(kLongNs));
    REQUIRE(kernels[1].cycles_ts1 == kernels[0].cycles_ts5 + model::kLaunchGapNs);
  }
  OK(spyreSetFaults("device_lost=0:0"));  // so that nobody waits for the kernel's end
  const spyreKernel_t k = kernel("last", 1);
  REQUIRE(spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_DEVICE_LOST);
  OK(spyreSetFaults(nullptr));
}

TEST_CASE("a client may call the library from its completion callback") {
  machine(1);
  static std::atomic<int> calls{0}, failures{0};
  static std::vector<std::unique_ptr<uint64_t[]>> memory;
  calls = failures = 0;
  const auto request = [](uint8_t** buffer, size_t* size, size_t* max_records) {
    memory.emplace_back(new uint64_t[512]);
    *buffer = reinterpret_cast<uint8_t*>(memory.back().get());
    *size = 4096;
    *max_records = 0;
  };
  const auto complete = [](uint8_t* buffer, size_t, size_t valid) {
    ++calls;
    AIUpti_Activity* record = nullptr;
    while (aiuptiActivityGetNextRecord(buffer, valid, &record) == AIUPTI_SUCCESS) {
    }
    size_t dropped = 0;
    for (const AIUpti_ResultTypes result :
         {aiuptiActivityGetNumDroppedRecords(&dropped), aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_RUNTIME),
          aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_MEMORY), aiuptiFlushAllActivities()}) {
      if (result != AIUPTI_SUCCESS) ++failures;
    }
  };
  REQUIRE(aiuptiActivityRegisterCallbacks(request, complete) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_SUCCESS);
  launch("row", 100, nullptr, 0, 300);
  OK(spyreDeviceSynchronize(0));
  for (int i = 0; i < 3; ++i) {
    for (int call = 0; call < 100; ++call) spyreRecordApi(99, 1, 2, 0);
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  }
  for (const AIUpti_ActivityKind kind : {AIUPTI_ACTIVITY_KIND_RUNTIME, AIUPTI_ACTIVITY_KIND_CMPT}) {
    REQUIRE(aiuptiActivityDisable(kind) == AIUPTI_SUCCESS);
  }
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);  // a callback enabled it again
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  REQUIRE(calls > 10);
  REQUIRE(failures == 0);
  memory.clear();
}
