#include <map>
#include <set>

#include "testing.h"

using namespace testing;

TEST_CASE("a launch is recorded by its thread, its kernel by the device, under one correlation id") {
  machine(2);
  Client client;
  const uint64_t begin = host_now_ns();
  launch("spyre_kernel_v1_mm_abcdefghijklmnop#3", 50'000, stream(4, 1), 1);
  client.collect();
  const auto kernels = client.kernels();
  const auto calls = client.calls(kLaunch);
  REQUIRE(kernels.size() == 1);
  REQUIRE(calls.size() == 1);
  const auto& kernel = kernels[0];
  REQUIRE(std::string_view(kernel.name) == "spyre_kernel_v1_mm_abcdefghijklmnop#3");
  REQUIRE(kernel.operation_kind == AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE);
  REQUIRE(kernel.device_id == 1);
  REQUIRE(kernel.stream_id == 4);
  REQUIRE(kernel.correlation_id == calls[0].correlation_id);
  REQUIRE(kernel.correlation_id > 0);
  REQUIRE(begin <= calls[0].start);
  REQUIRE(calls[0].start <= calls[0].end);
  REQUIRE(calls[0].start <= kernel.queued);
  REQUIRE(kernel.queued <= kernel.submitted);
  REQUIRE(kernel.submitted <= kernel.start);
  REQUIRE(kernel.end - kernel.start == 50'000);
  REQUIRE(calls[0].process_id == static_cast<uint32_t>(getpid()));
  REQUIRE(calls[0].thread_id == static_cast<uint32_t>(gettid()));
}

TEST_CASE("each call has its callback id, its data, and a correlation id of its own") {
  machine(2);
  Client client;
  void *block, *other;
  OK(spyreMalloc(0, 5000, nullptr, &block));
  OK(spyreMalloc(1, 5000, nullptr, &other));
  OK(spyreMemset(0, block, 0, 4000, nullptr, SPYRE_ASYNC));
  char host[5000] = {};
  OK(spyreMemcpy(0, block, host, 3000, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_ASYNC));
  OK(spyreMemcpy(0, host, block, 2000, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_BLOCKING));
  OK(spyreMemcpy(0, other, block, 1000, SPYRE_MEMCPY_PTOP, stream(2), SPYRE_ASYNC));
  OK(spyreStreamSynchronize(0, stream(2)));
  OK(spyreFree(0, block));
  OK(spyreFree(1, other));
  OK(spyreRecordApi(41, 1000, 2000, 77));
  client.collect(false);

  std::vector<std::pair<uint32_t, uint64_t>> seen;
  std::set<uint32_t> ids;
  for (const auto& call : client.calls()) {
    seen.emplace_back(call.cbid, call.data);
    REQUIRE(ids.insert(call.correlation_id).second);
  }
  const std::vector<std::pair<uint32_t, uint64_t>> expected = {
      {kMalloc, 5000}, {kMalloc, 5000}, {kMalloc, 4000}, {kHtoD, 3000}, {kDtoH, 2000}, {kWait, 1},
      {kPtoP, 1},      {kWait, 2},      {kFree, 5000},   {kFree, 5000}, {41, 77},
  };
  REQUIRE(seen == expected);

  const auto copies = client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY);
  REQUIRE(copies.size() == 2);
  REQUIRE(copies[0].copy_kind == AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  REQUIRE(copies[0].bytes == 3000);
  REQUIRE(copies[0].correlation_id == client.calls()[3].correlation_id);
  REQUIRE(copies[1].copy_kind == AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  REQUIRE(copies[0].end > copies[0].start);
  const auto between = client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY2);
  REQUIRE(between.size() == 1);
  REQUIRE(between[0].copy_kind == AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  REQUIRE(between[0].stream_id == 2);
  const auto fills = client.of<AIUpti_ActivityMemset>(AIUPTI_ACTIVITY_KIND_MEMSET);
  REQUIRE(fills.size() == 1);
  REQUIRE(fills[0].bytes == 4000);
  REQUIRE(fills[0].correlation_id == client.calls()[2].correlation_id);
  const auto memory = client.of<AIUpti_ActivityMemory>(AIUPTI_ACTIVITY_KIND_MEMORY);
  REQUIRE(memory.size() == 4);
  REQUIRE(memory[0].memory_operation_type == AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
  REQUIRE(memory[0].address == reinterpret_cast<uint64_t>(block));
  REQUIRE(memory[0].bytes == 5000);
  REQUIRE(memory[1].device_id == 1);
  REQUIRE(memory[2].memory_operation_type == AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
  REQUIRE(memory[2].address == memory[0].address);
  REQUIRE(memory[2].correlation_id == client.calls()[8].correlation_id);
}

TEST_CASE("a wait ends after everything that it waited for") {
  machine(1);
  Client client;
  launch("one", 3'000'000);
  launch("two", 3'000'000, stream(2));
  OK(spyreDeviceSynchronize(0));
  client.collect(false);
  const auto waits = client.calls(kWait);
  REQUIRE(waits.size() == 1);
  REQUIRE(waits[0].data == 0);
  for (const auto& kernel : client.kernels()) REQUIRE(kernel.end <= waits[0].end);
}

TEST_CASE("cycle stamps: five in order, spanning the kernel; the counter stands still while the stream is idle") {
  machine(1);
  Client client;
  launch("hold", 200'000'000);
  launch("exact", 80'000);
  spyreKernel_t modelled = kernel("modelled", -1);
  modelled.flops = 1e9;
  modelled.bytes_read = 1 << 20;
  modelled.bytes_written = 1 << 20;
  OK(spyreLaunchKernel(0, nullptr, &modelled));
  OK(spyreDeviceSynchronize(0));
  usleep(20'000);
  launch("after a rest", 80'000);
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 4);
  REQUIRE(kernels[2].local_memory_total > 0);
  REQUIRE(kernels[2].local_memory_total % 128 == 0);
  REQUIRE(kernels[2].local_memory_total <= model::kCores * model::kScratchpadBytesPerCore);
  uint64_t before = 0;
  for (const auto& k : kernels) {
    const std::array<uint64_t, 5> ts{k.cycles_ts1, k.cycles_ts2, k.cycles_ts3, k.cycles_ts4, k.cycles_ts5};
    REQUIRE(std::is_sorted(ts.begin(), ts.end()));
    REQUIRE(ts[4] - ts[0] == k.end - k.start);  // 1 GHz
    if (before != 0) REQUIRE(ts[0] - before == model::kLaunchGapNs);
    before = ts[4];
  }
}

TEST_CASE("without a client nothing is recorded, and what was launched before is not") {
  machine(1);
  REQUIRE(spyreIsTracing() == 0);
  launch("before", 10'000'000);
  Client client;
  REQUIRE(spyreIsTracing() != 0);
  launch("within", 1000);
  client.collect();
  client.disable();
  REQUIRE(spyreIsTracing() == 0);
  launch("after", 1000);
  client.collect();
  REQUIRE(client.kernels().size() == 1);
  REQUIRE(std::string_view(client.kernels()[0].name) == "within");
}

TEST_CASE("what ended while its kind was enabled is delivered, also if the kind is disabled before the flush") {
  machine(1);
  Client client;
  for (int i = 0; i < 100; ++i) launch("ended", 1000);
  OK(spyreDeviceSynchronize(0));
  client.disable();
  client.collect(false);
  REQUIRE(client.kernels().size() == 100);
}

TEST_CASE("a kind that is not enabled is not recorded") {
  machine(1);
  Client client;
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_SUCCESS);
  launch("unseen", 1000);
  client.collect();
  REQUIRE(client.kernels().empty());
  REQUIRE(client.calls(kLaunch).size() == 1);
  REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_INVALID) == AIUPTI_ERROR_INVALID_KIND);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_INVALID) == AIUPTI_ERROR_INVALID_KIND);
}

TEST_CASE("work that has not ended is not delivered by a flush, but by a later one") {
  machine(1);
  Client client;
  launch("long", 50'000'000);
  client.collect(false);
  REQUIRE(client.kernels().empty());
  REQUIRE(client.calls(kLaunch).size() == 1);
  client.collect();
  REQUIRE(client.kernels().size() == 1);
}

TEST_CASE("full buffers come back by themselves, on another thread than those that write") {
  machine(1);
  Client client(4096);
  launch("many", 100, nullptr, 0, 1000);
  OK(spyreDeviceSynchronize(0));
  REQUIRE(
      eventually([&] { return client.completions().size() >= 1000 / (4096 / sizeof(AIUpti_ActivityCompute)) / 2; }));
  for (const auto& completion : client.completions()) {
    REQUIRE(completion.size == 4096);
    REQUIRE(completion.valid <= 4096);
    REQUIRE(completion.thread != gettid());
  }
  client.collect();
  REQUIRE(client.kernels().size() == 1000);
}

TEST_CASE("no buffer holds more records than it may") {
  machine(1);
  Client client(64 << 10, 10);
  launch("many", 100, nullptr, 0, 95);
  client.collect();
  REQUIRE(client.kernels().size() == 95);
  for (const auto& completion : client.completions()) REQUIRE(completion.valid <= 10 * sizeof(AIUpti_ActivityCompute));
}

TEST_CASE("what finds no buffer is dropped and counted, once") {
  machine(1);
  Client client(100 * sizeof(AIUpti_ActivityCompute), 0, 1);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  launch("many", 100, nullptr, 0, 150);
  client.collect();
  REQUIRE(client.kernels().size() == 100);
  REQUIRE(client.dropped() == 50);
  REQUIRE(client.dropped() == 0);
}

TEST_CASE("a buffer too small for a record goes back empty, and the record is dropped") {
  machine(1);
  Client client(64);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  launch("large", 100);
  client.collect();
  REQUIRE(client.records().empty());
  REQUIRE(client.dropped() == 1);
  for (const auto& completion : client.completions()) REQUIRE(completion.valid == 0);
}

TEST_CASE("each thread's calls carry its own id") {
  machine(1);
  Client client;
  std::map<pid_t, int> expected;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10 * t; ++i) spyreRecordApi(99, 1, 2, 0);
      std::lock_guard lock(mutex);
      expected[gettid()] = 10 * t;
    });
  }
  for (auto& thread : threads) thread.join();
  client.collect();
  std::map<pid_t, int> seen;
  for (const auto& call : client.calls(99)) ++seen[static_cast<pid_t>(call.thread_id)];
  REQUIRE(seen == expected);
}

TEST_CASE("a thousand short threads share few buffers") {
  machine(1);
  Client client;
  for (int t = 0; t < 1000; ++t) {
    std::thread([] { spyreRecordApi(99, 1, 2, 0); }).join();
  }
  client.collect();
  REQUIRE(client.calls(99).size() == 1000);
  REQUIRE(client.completions().size() < 10);
}

TEST_CASE("an iteration keeps its place for the process, and forgets it at its end only") {
  machine(1);
  Client client;
  for (int i = 0; i < 3; ++i) launch("read", 100);
  OK(spyreDeviceSynchronize(0));
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  for (const auto& done : client.completions()) {
    std::vector<AIUpti_Activity*> first, second;
    AIUpti_Activity* record = nullptr;
    REQUIRE(aiuptiActivityGetNextRecord(done.buffer, done.valid, &record) == AIUPTI_SUCCESS);
    first.push_back(record);
    std::thread([&] {  // another thread goes on where this one was
      AIUpti_Activity* next = nullptr;
      while (aiuptiActivityGetNextRecord(done.buffer, done.valid, &next) == AIUPTI_SUCCESS) first.push_back(next);
    })
        .join();
    while (aiuptiActivityGetNextRecord(done.buffer, done.valid, &record) == AIUPTI_SUCCESS) second.push_back(record);
    REQUIRE(first == second);
    REQUIRE(first.front() == reinterpret_cast<AIUpti_Activity*>(done.buffer));
  }
}

TEST_CASE("an iteration over what is no record errs once and then ends") {
  machine(1);
  Client client;
  alignas(8) uint8_t garbage[256] = {};
  AIUpti_Activity* record = nullptr;
  REQUIRE(aiuptiActivityGetNextRecord(garbage, sizeof(garbage), &record) == AIUPTI_ERROR_INVALID_KIND);
  REQUIRE(record == nullptr);
  REQUIRE(aiuptiActivityGetNextRecord(garbage, sizeof(garbage), &record) == AIUPTI_ERROR_MAX_LIMIT_REACHED);
  REQUIRE(aiuptiActivityGetNextRecord(nullptr, 8, &record) == AIUPTI_ERROR_INVALID_PARAMETER);
}
