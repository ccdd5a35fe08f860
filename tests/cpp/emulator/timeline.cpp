#include "testing.h"

using namespace testing;

TEST_CASE("work on a stream runs in order, with the same gap between pieces that are queued back to back") {
  machine(1);
  Client client;
  launch("hold", 200'000'000);  // so that the rest is queued while it runs
  for (int i = 0; i < 5; ++i) launch(std::to_string(i).c_str(), 10'000 * (i + 1));
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 6);
  for (int i = 0; i < 5; ++i) {
    const auto &before = kernels[i], &now = kernels[i + 1];
    REQUIRE(now.name == std::to_string(i));
    REQUIRE(now.start == before.end + model::kLaunchGapNs);
    REQUIRE(now.end - now.start == 10'000u * (i + 1));
  }
}

TEST_CASE("streams run concurrently") {
  machine(1);
  Client client;
  const uint64_t begin = host_now_ns();
  for (uint32_t id = 1; id <= 8; ++id) launch("wide", 200'000'000, stream(id));
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 8);
  uint64_t last_start = 0, first_end = UINT64_MAX;
  for (const auto& kernel : kernels) {
    last_start = std::max(last_start, kernel.start);
    first_end = std::min(first_end, kernel.end);
    REQUIRE(kernel.start >= begin);
  }
  REQUIRE(last_start < first_end);
}

TEST_CASE("submitting waits for nothing, synchronising waits for the device") {
  machine(1);
  const uint64_t begin = host_now_ns();
  launch("long", 200'000'000);
  REQUIRE(spyreStreamQuery(0, nullptr) == SPYRE_ERROR_NOT_READY);
  OK(spyreStreamSynchronize(0, nullptr));
  REQUIRE(host_now_ns() >= begin + 200'000'000);
  OK(spyreStreamQuery(0, nullptr));
  launch("on another stream", 200'000'000, stream(3));
  OK(spyreStreamQuery(0, nullptr));
  OK(spyreStreamSynchronize(0, nullptr));  // not that one
  REQUIRE(spyreStreamQuery(0, stream(3)) == SPYRE_ERROR_NOT_READY);
  OK(spyreDeviceSynchronize(0));
  OK(spyreStreamQuery(0, stream(3)));
}

TEST_CASE("a stream that waits for an event starts after it, also across devices") {
  machine(2);
  Client client;
  spyreEvent_t event;
  OK(spyreEventCreate(0, 1, &event));
  OK(spyreStreamWaitEvent(0, nullptr, event));  // never recorded: waits for nothing
  launch("first", 10'000'000, stream(2, 0), 0);
  OK(spyreEventRecord(event, 0, stream(2, 0)));
  OK(spyreStreamWaitEvent(0, stream(3, 0), event));
  OK(spyreStreamWaitEvent(1, nullptr, event));
  launch("same device", 1000, stream(3, 0), 0);
  launch("other device", 1000, nullptr, 1);
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 3);
  uint64_t end = 0;
  for (const auto& kernel : kernels) {
    if (std::string_view(kernel.name) == "first") end = kernel.end;
  }
  for (const auto& kernel : kernels) {
    if (std::string_view(kernel.name) != "first") REQUIRE(kernel.start >= end);
  }
  OK(spyreEventDestroy(event));
}

TEST_CASE("events tell when the stream came to them, on the device's clock") {
  machine(1);
  spyreEvent_t start, end, silent;
  OK(spyreEventCreate(0, 1, &start));
  OK(spyreEventCreate(0, 1, &end));
  OK(spyreEventCreate(0, 0, &silent));
  double milliseconds = -1;
  REQUIRE(spyreEventElapsedTime(start, end, &milliseconds) == SPYRE_ERROR_INVALID_VALUE);
  OK(spyreEventQuery(start));
  launch("hold", 200'000'000);
  OK(spyreEventRecord(start, 0, nullptr));
  launch("timed", 7'000'000);
  OK(spyreEventRecord(end, 0, nullptr));
  OK(spyreEventRecord(silent, 0, nullptr));
  REQUIRE(spyreEventQuery(end) == SPYRE_ERROR_NOT_READY);
  REQUIRE(spyreEventElapsedTime(start, end, &milliseconds) == SPYRE_ERROR_NOT_READY);
  OK(spyreEventSynchronize(end));
  OK(spyreEventElapsedTime(start, end, &milliseconds));
  REQUIRE(milliseconds == Approx((7'000'000 + model::kLaunchGapNs) * 1e-6).epsilon(1e-9));
  REQUIRE(spyreEventElapsedTime(start, silent, &milliseconds) == SPYRE_ERROR_INVALID_VALUE);
  for (spyreEvent_t event : {start, end, silent}) OK(spyreEventDestroy(event));
}

TEST_CASE("a launch of many control blocks is that many kernels in a row under one correlation id") {
  machine(1);
  Client client;
  launch("block", 1000, nullptr, 0, 1000);
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 1000);
  for (size_t i = 1; i < kernels.size(); ++i) {
    REQUIRE(kernels[i].start == kernels[i - 1].end + model::kControlBlockGapNs);
    REQUIRE(kernels[i].end - kernels[i].start == 1000);
    REQUIRE(kernels[i].correlation_id == kernels[0].correlation_id);
  }
  const auto calls = client.calls(kLaunch);
  REQUIRE(calls.size() == 1);
  REQUIRE(calls[0].data == 1000);
}

TEST_CASE("a kernel of no length is one") {
  machine(1);
  Client client;
  launch("nothing", 0);
  launch("nothing", 0, nullptr, 0, 100);
  client.collect();
  REQUIRE(client.kernels().size() == 101);
  REQUIRE(client.kernels()[0].start == client.kernels()[0].end);
}

TEST_CASE("work functions run in stream order, on the device's thread, and synchronising waits for them") {
  machine(1);
  Order order;
  std::vector<Step> steps;
  for (int i = 0; i < 200; ++i) steps.push_back({&order, i});
  for (Step& step : steps) launch_step(&step);
  OK(spyreStreamSynchronize(0, nullptr));
  REQUIRE(order.seen.size() == 200);
  REQUIRE(std::is_sorted(order.seen.begin(), order.seen.end()));
  for (const auto id : order.threads) {
    REQUIRE(id == order.threads[0]);
    REQUIRE(id != std::this_thread::get_id());
  }
}

TEST_CASE("a work function that waits for an event of another stream, or device, runs after what the event waits for") {
  machine(2);
  Order order;
  Step slow{&order, 1, 20'000}, after{&order, 2}, elsewhere{&order, 3};
  spyreEvent_t event;
  OK(spyreEventCreate(0, 0, &event));
  launch_step(&slow, stream(2));
  OK(spyreEventRecord(event, 0, stream(2)));
  OK(spyreStreamWaitEvent(0, stream(3), event));
  OK(spyreStreamWaitEvent(1, nullptr, event));
  launch_step(&after, stream(3));
  launch_step(&elsewhere, nullptr, 1000, 1);
  OK(spyreStreamSynchronize(0, stream(3)));
  OK(spyreDeviceSynchronize(1));
  REQUIRE(order.seen.size() == 3);
  REQUIRE(order.seen[0] == 1);
  OK(spyreEventDestroy(event));
}

TEST_CASE("an event behind a work function is reached when that has run, through other streams too") {
  machine(1);
  Order order;
  Step slow{&order, 1, 200'000};
  spyreEvent_t first, second;
  OK(spyreEventCreate(0, 0, &first));
  OK(spyreEventCreate(0, 0, &second));
  launch_step(&slow, stream(2));
  OK(spyreEventRecord(first, 0, stream(2)));
  OK(spyreStreamWaitEvent(0, stream(3), first));
  OK(spyreEventRecord(second, 0, stream(3)));
  REQUIRE(spyreEventQuery(second) == SPYRE_ERROR_NOT_READY);
  OK(spyreEventSynchronize(second));
  REQUIRE(order.seen.size() == 1);
  OK(spyreEventDestroy(first));
  OK(spyreEventDestroy(second));
}

TEST_CASE("copies and fills move bytes when the stream comes to them") {
  machine(2);
  constexpr size_t kBytes = 100'000;
  std::vector<unsigned char> there(kBytes), back(kBytes, 0);
  for (size_t i = 0; i < kBytes; ++i) there[i] = static_cast<unsigned char>(i * 7);
  void *first, *second;
  OK(spyreMalloc(0, kBytes, nullptr, &first));
  OK(spyreMalloc(1, kBytes, nullptr, &second));
  SECTION("asynchronously") {
    launch("hold", 5'000'000);
    OK(spyreMemcpy(0, first, there.data(), kBytes, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_ASYNC));
    OK(spyreMemset(0, first, 0xAB, 1000, nullptr, SPYRE_ASYNC));
    OK(spyreMemcpy(0, second, first, kBytes, SPYRE_MEMCPY_PTOP, nullptr, SPYRE_ASYNC));
    OK(spyreMemcpy(0, back.data(), first, kBytes, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_ASYNC));
    OK(spyreStreamSynchronize(0, nullptr));
  }
  SECTION("blocking") {
    OK(spyreMemcpy(0, first, there.data(), kBytes, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_BLOCKING));
    OK(spyreMemset(0, first, 0xAB, 1000, nullptr, SPYRE_BLOCKING));
    OK(spyreMemcpy(0, second, first, kBytes, SPYRE_MEMCPY_PTOP, nullptr, SPYRE_BLOCKING));
    OK(spyreMemcpy(0, back.data(), first, kBytes, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_BLOCKING));
  }
  SECTION("at once on the calling thread") {
    OK(spyreMemcpy(0, first, there.data(), kBytes, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_EAGER));
    OK(spyreMemset(0, first, 0xAB, 1000, nullptr, SPYRE_EAGER));
    OK(spyreMemcpy(0, second, first, kBytes, SPYRE_MEMCPY_PTOP, nullptr, SPYRE_EAGER));
    OK(spyreMemcpy(0, back.data(), first, kBytes, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_EAGER));
  }
  std::fill_n(there.begin(), 1000, 0xAB);
  REQUIRE(back == there);
  REQUIRE(std::memcmp(second, there.data(), kBytes) == 0);
  OK(spyreDeviceSynchronize(0));
  OK(spyreFree(0, first));
  OK(spyreFree(1, second));
}

TEST_CASE("measured time: a kernel lasts what its work took, and what follows takes its place after it") {
  machine(1, SPYRE_TIME_MEASURED);
  Client client;
  Order order;
  Step slow{&order, 1, 20'000};
  spyreEvent_t event;
  OK(spyreEventCreate(0, 1, &event));
  launch_step(&slow, nullptr, -1);
  launch("after", 1000);
  OK(spyreEventRecord(event, 0, nullptr));
  OK(spyreStreamWaitEvent(0, stream(2), event));
  launch("elsewhere", 1000, stream(2));
  spyreKernel_t told = kernel("told", -1);
  told.measured_ns = 123'456;
  OK(spyreLaunchKernel(0, nullptr, &told));
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 4);
  const auto named = [&](std::string_view name) {
    for (const auto& k : kernels) {
      if (k.name == name) return k;
    }
    FAIL("no kernel " << name);
    return AIUpti_ActivityCompute{};
  };
  REQUIRE(named("step").end - named("step").start >= 20'000'000);
  REQUIRE(named("after").start >= named("step").end);
  REQUIRE(named("elsewhere").start >= named("after").end);
  REQUIRE(named("told").end - named("told").start == 123'456);
  OK(spyreEventDestroy(event));
}

TEST_CASE("many events behind work of unknown length are all reached") {
  machine(2, SPYRE_TIME_MEASURED);
  Order order;
  std::vector<Step> steps(50, Step{&order, 0, 500});
  std::vector<spyreEvent_t> events(50);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto device = static_cast<int32_t>(i % 2);
    OK(spyreEventCreate(device, 0, &events[i]));
    if (i != 0) OK(spyreStreamWaitEvent(device, stream(1 + i % 3, device), events[i - 1]));
    steps[i].number = static_cast<int>(i);
    launch_step(&steps[i], stream(1 + i % 3, device), -1, device);
    OK(spyreEventRecord(events[i], device, stream(1 + i % 3, device)));
  }
  OK(spyreEventSynchronize(events.back()));
  REQUIRE(order.seen.size() == 50);
  REQUIRE(std::is_sorted(order.seen.begin(), order.seen.end()));
  for (spyreEvent_t event : events) OK(spyreEventDestroy(event));
}

TEST_CASE("a launch onto a full queue waits until there is room, and its wait is recorded") {
  machine(1);
  // Held as long as this host, maybe under a sanitizer or qemu, needs to fill the queue.
  bool held = false;
  for (int64_t hold_ns = 300'000'000; !held; hold_ns *= 4) {
    REQUIRE(hold_ns < 100'000'000'000);
    Client client(1 << 20);
    launch("hold", hold_ns);
    for (uint64_t i = 1; i < model::kLaunchQueueDepth; ++i) launch("k", 10);
    const uint64_t before = host_now_ns();
    for (int i = 0; i < 3; ++i) launch("waits", 10);
    client.collect();
    const auto kernels = client.kernels();
    REQUIRE(kernels.size() == model::kLaunchQueueDepth + 3);
    REQUIRE(std::string_view(kernels.back().name) == "waits");
    held = before < kernels[0].end;
    if (!held) continue;
    const auto waits = client.calls(kWaitForQueueCapacity);
    REQUIRE_FALSE(waits.empty());
    REQUIRE(waits[0].end >= kernels[0].end);
    for (size_t i = 1; i < model::kLaunchQueueDepth; ++i) {  // what was queued while the first one held the stream
      if (kernels[i].start - kernels[i - 1].end != model::kLaunchGapNs) {
        FAIL("kernel " << i << " starts " << kernels[i].start - kernels[i - 1].end << " ns after the one before");
      }
    }
  }
}

TEST_CASE("a launch onto a queue that stands still is told why; a device's thread never waits for room") {
  machine(1);
  std::atomic<int> ran{0};
  spyreKernel_t k = kernel("k", 10);
  const auto fill = [&] {
    launch("hangs", 10);
    for (uint64_t i = 1; i < model::kLaunchQueueDepth; ++i) OK(spyreLaunchKernel(0, nullptr, &k));
  };
  {
    Faults faults("hang=1,timeout=100ms");
    fill();
    REQUIRE(spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_TIMEOUT);
    REQUIRE(std::string_view(spyreGetLastErrorString()).find("never ends") != std::string_view::npos);
    spyreKernel_t inner = kernel("launches", 10);
    inner.work_arg = &ran;
    inner.work = [](void* result) {
      const spyreKernel_t more = kernel("more", 10);
      *static_cast<std::atomic<int>*>(result) = spyreLaunchKernel(0, nullptr, &more) == SPYRE_SUCCESS ? 1 : 2;
    };
    OK(spyreLaunchKernel(0, stream(2), &inner));
    OK(spyreStreamSynchronize(0, stream(2)));
    REQUIRE(ran == 1);
  }
  OK(spyreDeviceSynchronize(0));
  Faults faults("hang=1,device_lost=" + std::to_string(model::kLaunchQueueDepth + 2));
  fill();
  spyreError_t result = SPYRE_SUCCESS;
  std::thread waiter([&] { result = spyreLaunchKernel(0, nullptr, &k); });
  usleep(20'000);
  while (spyreLaunchKernel(0, stream(2), &k) == SPYRE_SUCCESS) {
  }
  waiter.join();
  REQUIRE(result == SPYRE_ERROR_DEVICE_LOST);
}

TEST_CASE("the scratchpad's figures are those of the kernels since the last reset") {
  machine(1);
  Client client;
  REQUIRE(spyreResetScratchpad(0) == SPYRE_SUCCESS);
  const auto add = [](const char* name, uint64_t read, uint64_t written) {
    spyreKernel_t kernel{};
    kernel.name = name;
    kernel.bytes_read = read;
    kernel.bytes_written = written;
    kernel.ns = -1;
    OK(spyreLaunchKernel(0, nullptr, &kernel));
  };
  add("small", 1000, 500);
  add("large", 40 << 20, 8 << 20);
  spyreScratchpad_t found{};
  REQUIRE(spyreGetScratchpad(0, &found) == SPYRE_SUCCESS);
  REQUIRE(found.largest == 48u << 20);
  REQUIRE(found.kernels == 2);
  REQUIRE(found.spills == 0);
  add("spills", 200 << 20, 8 << 20);
  client.collect();
  REQUIRE(spyreGetScratchpad(0, &found) == SPYRE_SUCCESS);
  REQUIRE(found.largest >= found.usable);
  REQUIRE(found.capacity == 64u << 20);
  REQUIRE(found.kernels == 3);
  REQUIRE(found.spills == 1);
  REQUIRE(spyreGetScratchpad(7, &found) != SPYRE_SUCCESS);
  REQUIRE(spyreGetScratchpad(0, nullptr) == SPYRE_ERROR_INVALID_VALUE);
}
