// One test a fault: what libaiupti's client sees of it.
#include <map>
#include <set>

#include "testing.h"

using namespace testing;

namespace {

void launch_named(int count) {
  for (int i = 0; i < count; ++i) launch(("k" + std::to_string(i)).c_str(), 1000);
}

std::vector<std::string> names(const Client& client) {
  std::vector<std::string> found;
  for (const auto& kernel : client.kernels()) found.emplace_back(kernel.name);
  return found;
}

}  // namespace

TEST_CASE("fault clock_offset: one device's times are off by it, the host's are not") {
  machine(2);
  Faults faults("clock_offset=1:-5ms");
  Client client;
  const uint64_t begin = host_now_ns();
  launch("right", 1000, nullptr, 0);
  launch("behind", 1000, nullptr, 1);
  client.collect();
  const uint64_t end = host_now_ns();
  for (const auto& kernel : client.kernels()) {
    const auto shift = static_cast<uint64_t>(kernel.device_id == 1 ? -5'000'000 : 0);
    for (const uint64_t time : {kernel.start, kernel.end}) {
      REQUIRE(time >= begin + shift);
      REQUIRE(time <= end + shift);
    }
    for (const uint64_t time : {kernel.queued, kernel.submitted}) {  // the host's clock
      REQUIRE(time >= begin);
      REQUIRE(time <= end);
    }
  }
  for (const auto& call : client.calls()) REQUIRE(call.start >= begin);
  uint64_t time;
  OK(spyreDeviceTimeAt(1, 1'000'000'000, &time));
  REQUIRE(time == 995'000'000);
}

TEST_CASE("fault clock_drift: the device's clock gains on the host's from when it was asked for") {
  machine(1);
  Faults faults("clock_drift=1000");
  uint64_t now = host_now_ns(), then, later;
  OK(spyreDeviceTimeAt(0, now, &then));
  OK(spyreDeviceTimeAt(0, now + 1'000'000'000, &later));
  REQUIRE(later - then == Approx(1'001'000'000).margin(10));
  REQUIRE(static_cast<int64_t>(then - now) < 10'000'000);
  Client client;
  launch("stretched", 100'000'000);
  client.collect();
  REQUIRE(client.kernels().size() == 1);
  REQUIRE(client.kernels()[0].end - client.kernels()[0].start == Approx(100'100'000).margin(10));
}

TEST_CASE("fault late: records come long after the work ended") {
  machine(1);
  Faults faults("late=500ms");
  Client client;
  const uint64_t begin = host_now_ns();
  launch("late", 1000);
  client.collect();
  if (host_now_ns() - begin < 500'000'000) REQUIRE(client.kernels().empty());  // unless the machine stood still
  usleep(510'000);
  client.collect();
  REQUIRE(client.kernels().size() == 1);
}

TEST_CASE("fault early: records come while the work still lies in the future") {
  machine(1);
  Faults faults("early=1");
  Client client;
  const uint64_t begin = host_now_ns();
  launch("early", 500'000'000);
  client.collect(false);
  REQUIRE(client.kernels().size() == 1);
  const uint64_t now = host_now_ns();
  if (now - begin < 400'000'000) REQUIRE(client.kernels()[0].end > now);  // unless the machine stood still
}

TEST_CASE("fault shuffle: records come in reverse order, none is lost") {
  machine(1);
  Faults faults("shuffle=1");
  Client client;
  launch("row", 100, nullptr, 0, 500);
  OK(spyreDeviceSynchronize(0));
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 500);
  REQUIRE_FALSE(
      std::is_sorted(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.start < b.start; }));
}

TEST_CASE("fault duplicate: every N-th record comes twice") {
  machine(1);
  Faults faults("duplicate=3");
  Client client;
  launch_named(9);
  client.collect();
  std::map<std::string, int> seen;
  for (const auto& name : names(client)) ++seen[name];
  REQUIRE(client.kernels().size() == 12);
  REQUIRE(seen["k2"] == 2);
  REQUIRE(seen["k3"] == 1);
  REQUIRE(seen["k8"] == 2);
}

TEST_CASE("fault drop: every N-th record is missing, and counted") {
  machine(1);
  Faults faults("drop=4");
  Client client;
  launch_named(10);
  client.collect();
  REQUIRE(client.kernels().size() == 8);
  REQUIRE(client.dropped() == 2);
}

TEST_CASE("fault torn: the second half of every N-th record is not the record's") {
  machine(1);
  Faults faults("torn=2");
  Client client;
  launch_named(4);
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 4);
  REQUIRE(std::string_view(kernels[0].name) == "k0");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&kernels[1]);
  REQUIRE(std::all_of(bytes + sizeof(kernels[1]) / 2, bytes + sizeof(kernels[1]), [](int b) { return b == 0xDB; }));
  REQUIRE(kernels[1].start != 0xDBDBDBDBDBDBDBDBu);
}

TEST_CASE("faults zero_start and backwards: times that can't be") {
  machine(1);
  {
    Faults faults("zero_start=2");
    Client client;
    launch_named(2);
    OK(spyreMemcpy(0, nullptr, nullptr, 100, SPYRE_MEMCPY_HTOD, nullptr, 0));
    OK(spyreMemset(0, nullptr, 0, 100, nullptr, 0));
    client.collect();
    REQUIRE(client.kernels()[0].start != 0);
    REQUIRE(client.kernels()[1].start == 0);
    REQUIRE(client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY)[0].start != 0);
    REQUIRE(client.of<AIUpti_ActivityMemset>(AIUPTI_ACTIVITY_KIND_MEMSET)[0].start == 0);
  }
  Faults faults("backwards=1");
  Client client;
  launch_named(1);
  client.collect();
  REQUIRE(client.kernels()[0].end < client.kernels()[0].start);
}

TEST_CASE("fault size: compute records are longer or shorter, the others are not, and an iteration finds its way") {
  machine(1);
  for (const auto& [specification, extra] : {std::pair{"size=+40", 40}, {"size=-40", -40}}) {
    Faults faults(specification);
    Client client;
    launch_named(3);
    OK(spyreMemcpy(0, nullptr, nullptr, 100, SPYRE_MEMCPY_HTOD, nullptr, 0));
    launch_named(3);
    client.collect();
    REQUIRE(client.kernels().size() == 6);
    REQUIRE(client.of<AIUpti_ActivityMemcpy>(AIUPTI_ACTIVITY_KIND_MEMCPY).size() == 1);
    REQUIRE(names(client) == std::vector<std::string>{"k0", "k1", "k2", "k0", "k1", "k2"});
    const AIUpti_Activity *first = nullptr, *second = nullptr;
    for (const AIUpti_Activity* record : client.records()) {
      if (record->kind != AIUPTI_ACTIVITY_KIND_CMPT) continue;
      if (first == nullptr) {
        first = record;
      } else if (second == nullptr) {
        second = record;
      }
    }
    REQUIRE(reinterpret_cast<const uint8_t*>(second) - reinterpret_cast<const uint8_t*>(first) ==
            static_cast<ptrdiff_t>(sizeof(AIUpti_ActivityCompute)) + extra);
  }
}

TEST_CASE("fault size: asked for and taken back in the middle of a session, buffers hold one size each") {
  machine(1);
  Client client;
  for (int round = 0; round < 4; ++round) {
    OK(spyreSetFaults(round % 2 == 0 ? "" : "size=+40"));
    launch_named(5);
    OK(spyreDeviceSynchronize(0));
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    launch_named(5);
    usleep(5000);
    OK(spyreDeviceSynchronize(0));
    usleep(5000);
  }
  OK(spyreSetFaults(nullptr));
  client.collect();
  REQUIRE(client.kernels().size() == 40);
  REQUIRE(client.read_errors().empty());
  for (const auto& kernel : client.kernels()) REQUIRE(kernel.name[0] == 'k');
}

TEST_CASE("fault bad_name: every N-th name is not UTF-8") {
  machine(1);
  Faults faults("bad_name=2");
  Client client;
  launch_named(2);
  client.collect();
  REQUIRE(names(client)[0] == "k0");
  REQUIRE(names(client)[1].find("\xff\xfe") != std::string::npos);
}

TEST_CASE("fault unterminated: every N-th name has no NUL in its 128 bytes") {
  machine(1);
  Faults faults("unterminated=2");
  Client client;
  launch_named(2);
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(std::memchr(kernels[0].name, 0, 128) != nullptr);
  REQUIRE(std::memchr(kernels[1].name, 0, 128) == nullptr);
  REQUIRE(kernels[1].end - kernels[1].start == 1000);
}

TEST_CASE("fault unknown_kind: records of a kind that no header has, between the others") {
  machine(1);
  Faults faults("unknown_kind=2");
  Client client;
  launch_named(4);
  client.collect();
  REQUIRE(client.kernels().size() == 4);
  REQUIRE(std::count_if(client.records().begin(), client.records().end(),
                        [](const AIUpti_Activity* record) { return record->kind == 42; }) == 2);
}

TEST_CASE("fault unknown_id: every N-th call has a callback id that no header has") {
  machine(1);
  Faults faults("unknown_id=2");
  Client client;
  launch_named(4);
  client.collect();
  REQUIRE(client.calls(9999).size() == 2);
  REQUIRE(client.kernels().size() == 4);
}

TEST_CASE("fault no_buffers: after N buffers everything is dropped and counted") {
  machine(1);
  Faults faults("no_buffers=2");
  Client client(4096);
  launch("row", 100, nullptr, 0, 1000);
  client.collect();
  const size_t fit = 4096 / sizeof(AIUpti_ActivityCompute);
  REQUIRE(client.completions().size() == 2);
  REQUIRE(client.kernels().size() <= 2 * fit);
  REQUIRE(client.records().size() + client.dropped() == 1002);  // a launch, a wait
}

TEST_CASE("fault truncate: a buffer's valid size cuts its last record") {
  machine(1);
  Faults faults("truncate=1");
  Client client;
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  launch_named(3);
  client.collect();
  REQUIRE(client.completions().size() == 1);
  REQUIRE(client.completions()[0].valid == 3 * sizeof(AIUpti_ActivityCompute) - 24);
}

TEST_CASE("fault swap_buffers: buffers come back at the flush only, last first") {
  machine(1);
  Faults faults("swap_buffers=1");
  Client client(4096);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  launch("row", 100, nullptr, 0, 100);
  OK(spyreDeviceSynchronize(0));
  usleep(20'000);
  REQUIRE(client.completions().empty());
  client.collect();
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 100);
  REQUIRE(kernels.front().start > kernels.back().start);
}

TEST_CASE("fault complete_twice: every N-th buffer comes back twice") {
  machine(1);
  Faults faults("complete_twice=2");
  Client client(4096);
  launch("row", 100, nullptr, 0, 100);
  client.collect();
  std::map<uint8_t*, int> times;
  for (const auto& completion : client.completions()) ++times[completion.buffer];
  const auto twice = std::count_if(times.begin(), times.end(), [](const auto& entry) { return entry.second == 2; });
  REQUIRE(twice == static_cast<ptrdiff_t>(times.size() / 2));
}

TEST_CASE("fault complete_late: buffers come back after the flush, and after everything was disabled") {
  machine(1);
  Client client;
  Faults faults("complete_late=50ms");
  launch_named(3);
  client.collect();
  client.disable();
  REQUIRE(client.completions().empty());
  REQUIRE(eventually([&] { return !client.completions().empty(); }));
  REQUIRE(spyreIsTracing() == 0);
  client.read();
  REQUIRE(client.kernels().size() == 3);
}

TEST_CASE("fault strange_thread: each buffer comes back on a thread of its own") {
  machine(1);
  Faults faults("strange_thread=1");
  Client client(4096);
  launch("row", 100, nullptr, 0, 100);
  client.collect();
  std::set<pid_t> threads;
  for (const auto& completion : client.completions()) threads.insert(completion.thread);
  REQUIRE(threads.size() > 1);
}

TEST_CASE("fault fail: each function returns an error when it is told to, and works again afterwards") {
  machine(1);
  Client client;
  AIUpti_Activity* record = nullptr;
  size_t dropped = 0;
  uint8_t byte = 0;
  const auto request = [](uint8_t**, size_t*, size_t*) {};
  const auto complete = [](uint8_t*, size_t, size_t) {};
  {
    Faults faults("fail=register");
    REQUIRE(aiuptiActivityRegisterCallbacks(request, complete) == AIUPTI_ERROR_UNKNOWN);
    REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_SUCCESS);
  }
  {
    Faults faults("fail=enable+disable");
    REQUIRE(aiuptiActivityEnable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_ERROR_UNKNOWN);
    REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_ERROR_UNKNOWN);
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
  }
  {
    Faults faults("fail=next+dropped+flush");
    REQUIRE(aiuptiActivityGetNextRecord(&byte, 1, &record) == AIUPTI_ERROR_UNKNOWN);
    REQUIRE(aiuptiActivityGetNumDroppedRecords(&dropped) == AIUPTI_ERROR_UNKNOWN);
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_ERROR_UNKNOWN);
  }
  launch_named(2);
  client.collect();
  REQUIRE(client.kernels().size() == 2);
}

TEST_CASE("fault null_record: GetNextRecord succeeds now and then with no record") {
  machine(1);
  Client client;
  launch_named(10);
  OK(spyreDeviceSynchronize(0));
  Faults faults("null_record=3");
  client.collect(false);
  REQUIRE(client.null_records() > 0);
  REQUIRE(client.kernels().size() == 10);
}

TEST_CASE("fault hang_flush: a flush blocks for its time, or until the faults are cleared") {
  machine(1);
  Client client;
  {
    Faults faults("hang_flush=50ms");
    const uint64_t begin = host_now_ns();
    REQUIRE(aiuptiFlushAllActivities() == AIUPTI_SUCCESS);
    REQUIRE(host_now_ns() >= begin + 50'000'000);
  }
  std::atomic<bool> flushed{false};
  OK(spyreSetFaults("hang_flush=1000s"));
  std::thread flusher([&] {
    aiuptiFlushAllActivities();
    flushed = true;
  });
  usleep(20'000);
  REQUIRE_FALSE(flushed);
  OK(spyreSetFaults(nullptr));
  flusher.join();
}

TEST_CASE("fault device_lost: from the N-th work on everything asked of the device fails, until it is mended") {
  machine(2);
  Client client;
  void* block = nullptr;
  OK(spyreMalloc(0, 1000, nullptr, &block));
  spyreEvent_t event;
  OK(spyreEventCreate(0, 1, &event));
  const spyreKernel_t k = kernel("k", 1000);
  {
    Faults faults("device_lost=0:3");
    for (int i = 0; i < 3; ++i) OK(spyreLaunchKernel(0, nullptr, &k));
    OK(spyreDeviceSynchronize(0));
    OK(spyreEventRecord(event, 0, nullptr));
    REQUIRE(spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_DEVICE_LOST);
    REQUIRE(std::string_view(spyreGetLastErrorString()).find("device 0 is lost") != std::string_view::npos);
    REQUIRE(spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_DEVICE_LOST);
    REQUIRE(spyreDeviceSynchronize(0) == SPYRE_ERROR_DEVICE_LOST);
    REQUIRE(spyreStreamQuery(0, nullptr) == SPYRE_ERROR_DEVICE_LOST);
    REQUIRE(spyreEventSynchronize(event) == SPYRE_ERROR_DEVICE_LOST);
    REQUIRE(spyreMemcpy(0, nullptr, nullptr, 8, SPYRE_MEMCPY_HTOD, nullptr, 0) == SPYRE_ERROR_DEVICE_LOST);
    void* none;
    REQUIRE(spyreMalloc(0, 8, nullptr, &none) == SPYRE_ERROR_DEVICE_LOST);
    launch("the other one lives", 1000, nullptr, 1);
    OK(spyreDeviceSynchronize(1));
  }
  launch("back", 1000);
  OK(spyreEventDestroy(event));
  OK(spyreFree(0, block));
  client.collect();
  REQUIRE(client.kernels().size() == 5);  // three before, the other device's, one after
}

TEST_CASE("fault device_lost: who waits for the device is told, work that had not begun never runs") {
  machine(1);
  std::atomic<bool> ran{false};
  spyreKernel_t k = kernel("k", 1000);
  k.work = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  k.work_arg = &ran;
  Faults faults("device_lost=2");
  launch("long", 10'000'000'000);
  OK(spyreLaunchKernel(0, nullptr, &k));
  spyreError_t result = SPYRE_SUCCESS;
  std::thread waiter([&] { result = spyreDeviceSynchronize(0); });
  usleep(20'000);
  REQUIRE(spyreLaunchKernel(0, nullptr, &k) == SPYRE_ERROR_DEVICE_LOST);
  waiter.join();
  REQUIRE(result == SPYRE_ERROR_DEVICE_LOST);
  REQUIRE_FALSE(ran);
}

TEST_CASE("fault hang: the N-th kernel never ends; a wait for it times out; mended, it has ended") {
  machine(2);
  Client client;
  spyreEvent_t event;
  OK(spyreEventCreate(0, 0, &event));
  {
    Faults faults("hang=0:2,timeout=50ms");
    launch("fine", 1000);
    launch("hangs", 1000);
    launch("behind it", 1000);
    OK(spyreEventRecord(event, 0, nullptr));
    launch("beside it", 1000, stream(2));
    OK(spyreStreamWaitEvent(1, nullptr, event));
    launch("waits on another device", 1000, nullptr, 1);
    OK(spyreStreamSynchronize(0, stream(2)));
    REQUIRE(spyreStreamSynchronize(0, nullptr) == SPYRE_ERROR_TIMEOUT);
    REQUIRE(std::string_view(spyreGetLastErrorString()).find("never ends") != std::string_view::npos);
    REQUIRE(spyreDeviceSynchronize(0) == SPYRE_ERROR_TIMEOUT);
    REQUIRE(spyreDeviceSynchronize(1) == SPYRE_ERROR_TIMEOUT);
    REQUIRE(spyreEventSynchronize(event) == SPYRE_ERROR_TIMEOUT);
    client.collect(false);
    REQUIRE(client.kernels().size() == 2);
  }
  client.collect();
  REQUIRE(client.kernels().size() == 5);
  for (const auto& kernel : client.kernels()) {
    if (std::string_view(kernel.name) == "hangs") REQUIRE(kernel.end - kernel.start > 50'000'000);
  }
  OK(spyreEventDestroy(event));
}

TEST_CASE("only what is behind a kernel that never ends times out; what merely lasts is waited for") {
  machine(2, SPYRE_TIME_MEASURED);
  Order order;
  constexpr int kSlowUs = 100'000;
  Step slow[3] = {{&order, 1, kSlowUs}, {&order, 2, kSlowUs}, {&order, 3, kSlowUs}};
  spyreEvent_t before, after;
  OK(spyreEventCreate(0, 0, &before));
  OK(spyreEventCreate(0, 0, &after));
  Faults faults("hang=0:2,timeout=1ms");
  launch_step(&slow[0], stream(2), -1);
  OK(spyreEventRecord(before, 0, stream(2)));
  launch("hangs", 1000, stream(2));
  OK(spyreEventRecord(after, 0, stream(2)));
  OK(spyreEventSynchronize(before));  // of the same stream, but before the kernel
  REQUIRE(order.seen == std::vector<int>{1});

  launch_step(&slow[1], stream(3), -1);
  OK(spyreStreamSynchronize(0, stream(3)));  // another stream
  REQUIRE(order.seen == std::vector<int>{1, 2});

  launch_step(&slow[2], stream(1, 1), -1, 1);
  OK(spyreDeviceSynchronize(1));  // another device
  REQUIRE(order.seen == std::vector<int>{1, 2, 3});

  // Two streams further on, on another device, beside an event that is reached.
  OK(spyreStreamWaitEvent(1, stream(2, 1), before));
  OK(spyreStreamWaitEvent(1, stream(2, 1), after));
  spyreEvent_t there;
  OK(spyreEventCreate(1, 0, &there));
  OK(spyreEventRecord(there, 1, stream(2, 1)));
  OK(spyreStreamWaitEvent(0, stream(4), there));
  REQUIRE(spyreStreamSynchronize(0, stream(4)) == SPYRE_ERROR_TIMEOUT);
  REQUIRE(spyreEventSynchronize(after) == SPYRE_ERROR_TIMEOUT);
  REQUIRE(spyreDeviceSynchronize(1) == SPYRE_ERROR_TIMEOUT);
  OK(spyreSetFaults(nullptr));
  OK(spyreDeviceSynchronize(1));
  OK(spyreDeviceSynchronize(0));
  for (spyreEvent_t event : {before, after, there}) OK(spyreEventDestroy(event));
}

TEST_CASE("a launch onto a full queue times out only if the queue stands still for good") {
  machine(1);
  spyreEvent_t event;
  OK(spyreEventCreate(0, 0, &event));
  Order order;
  Step slow{&order, 1, 300'000};
  spyreKernel_t k = kernel("k", 10);
  k.work = [](void*) {};
  Faults faults("hang=1,timeout=1ms");
  launch("hangs", 10, stream(2));
  OK(spyreEventRecord(event, 0, stream(2)));
  launch_step(&slow, nullptr, 10);
  for (uint64_t i = 0; i < model::kLaunchQueueDepth + 1; ++i) OK(spyreLaunchKernel(0, nullptr, &k));
  REQUIRE(order.seen == std::vector<int>{1});

  OK(spyreStreamWaitEvent(0, stream(3), event));
  for (uint64_t i = 1; i < model::kLaunchQueueDepth; ++i) OK(spyreLaunchKernel(0, stream(3), &k));
  REQUIRE(spyreLaunchKernel(0, stream(3), &k) == SPYRE_ERROR_TIMEOUT);
  OK(spyreSetFaults(nullptr));
  OK(spyreDeviceSynchronize(0));
  OK(spyreEventDestroy(event));
}

TEST_CASE("on request prepare: a PREPARE record before each EXECUTE one, under the same correlation id") {
  machine(1);
  {
    Faults faults("prepare=1");
    Client client;
    launch_named(3);
    client.collect();
    const auto kernels = client.kernels();
    REQUIRE(kernels.size() == 6);
    for (size_t i = 0; i < 6; i += 2) {
      REQUIRE(kernels[i].operation_kind == AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE);
      REQUIRE(kernels[i + 1].operation_kind == AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE);
      REQUIRE(kernels[i].correlation_id == kernels[i + 1].correlation_id);
      REQUIRE(kernels[i].end == kernels[i + 1].start);
    }
  }
  Client client;
  launch_named(3);
  client.collect();
  REQUIRE(client.kernels().size() == 3);
}
