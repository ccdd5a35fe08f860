// What another release of libaiupti might do, where nobody knows what the real one does: a test for each such fault.
#include "testing.h"

using namespace testing;

namespace {

constexpr size_t kFit = 4096 / sizeof(AIUpti_ActivityCompute);

void launch_three() {
  for (const char* name : {"k0", "k1", "k2"}) launch(name, 1000);
}

std::vector<const AIUpti_Activity*> records_of(const Client& client, AIUpti_ActivityKind kind) {
  std::vector<const AIUpti_Activity*> found;
  for (const AIUpti_Activity* record : client.records()) {
    if (record->kind == kind) found.push_back(record);
  }
  return found;
}

ptrdiff_t distance(const AIUpti_Activity* first, const AIUpti_Activity* second) {
  return reinterpret_cast<const uint8_t*>(second) - reinterpret_cast<const uint8_t*>(first);
}

void check_names(const Client& client) {
  const auto kernels = client.kernels();
  REQUIRE(kernels.size() == 3);
  for (size_t i = 0; i < 3; ++i) REQUIRE(std::string_view(kernels[i].name) == "k" + std::to_string(i));
}

}  // namespace

TEST_CASE("fault discard_at_disable: what a flush has not delivered before is gone, uncounted") {
  machine(1);
  Faults faults("discard_at_disable");
  Client client(4096);
  launch_three();
  OK(spyreDeviceSynchronize(0));
  client.disable();
  client.collect(false);
  REQUIRE(client.records().empty());
  REQUIRE(client.dropped() == 0);
  REQUIRE(client.out() == 0);

  client.enable();
  launch_three();
  client.collect();
  launch("undelivered", 1000);
  OK(spyreDeviceSynchronize(0));
  client.disable();
  client.collect(false);
  check_names(client);
}

TEST_CASE(
    "fault discard_at_disable: one kind's records go, also those that lie in the current buffer, the others stay") {
  machine(1);
  Faults faults("discard_at_disable");
  Client client;
  launch("row", 100, nullptr, 0, 1000);  // many chunks: most of them are in the current buffer before the disable
  OK(spyreDeviceSynchronize(0));
  usleep(30'000);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_CMPT) == AIUPTI_SUCCESS);
  client.collect(false);
  REQUIRE(client.read_errors().empty());
  REQUIRE(client.kernels().size() < 1000);  // what filled a buffer was delivered
  REQUIRE(client.calls(kLaunch).size() == 1);
  REQUIRE(client.calls(kWait).size() == 1);
}

TEST_CASE("fault flush_when_disabled=nothing: with no kind enabled a flush delivers nothing; a later session gets it") {
  machine(1);
  Client client;
  {
    Faults faults("flush_when_disabled=nothing");
    launch_three();
    OK(spyreDeviceSynchronize(0));
    client.disable();
    client.collect(false);
    REQUIRE(client.records().empty());
    client.enable();
    client.collect(false);
  }
  check_names(client);
}

TEST_CASE("fault flush_when_disabled=fail: with no kind enabled a flush fails, with one it works") {
  machine(1);
  Faults faults("flush_when_disabled=fail");
  Client client;
  launch_three();
  client.collect();
  client.disable();
  REQUIRE(aiuptiFlushAllActivities() == AIUPTI_ERROR_UNKNOWN);
  check_names(client);
}

TEST_CASE("fault rotate_at_flush: a flush requests its next buffer at once, which outlives the session") {
  machine(1);
  Client client;
  {
    Faults faults("rotate_at_flush");
    launch_three();
    client.collect();
    REQUIRE(client.out() == 1);
    client.disable();
    client.collect(false);
    REQUIRE(client.out() == 1);
    REQUIRE(client.completions().back().valid == 0);
    check_names(client);
    client.enable();
    launch("next session", 1000);
    client.collect();
    REQUIRE(client.kernels().size() == 4);
  }
  client.disable();
  client.collect(false);
  REQUIRE(client.out() == 0);
  const auto lent = client.lent();
  for (size_t i = 0; i < lent.size(); ++i) REQUIRE(client.completions()[i].buffer == lent[i]);
}

TEST_CASE("fault end_code: an iteration ends with that result, and begins anew afterwards") {
  machine(1);
  Client client;
  launch_three();
  OK(spyreDeviceSynchronize(0));
  for (const int code : {1, 2, 77, 999}) {
    Faults faults("end_code=" + std::to_string(code));
    client.expect_end(code);
    launch("one", 1000);
    client.collect();
    REQUIRE(client.read_errors().empty());
  }
  REQUIRE(client.kernels().size() == 7);
}

TEST_CASE("fault buffer_limit: at most N buffers from one flush to the next, the rest is dropped and counted") {
  machine(1);
  Faults faults("buffer_limit=2");
  Client client(4096);
  REQUIRE(aiuptiActivityDisable(AIUPTI_ACTIVITY_KIND_RUNTIME) == AIUPTI_SUCCESS);
  launch("row", 100, nullptr, 0, 1000);
  client.collect();
  REQUIRE(client.completions().size() == 2);
  REQUIRE(client.kernels().size() == 2 * kFit);
  REQUIRE(client.dropped() == 1000 - 2 * kFit);
  launch("row", 100, nullptr, 0, static_cast<int32_t>(kFit) + 1);
  client.collect();
  REQUIRE(client.completions().size() == 4);
  REQUIRE(client.kernels().size() == 3 * kFit + 1);
  REQUIRE(client.dropped() == 0);
}

TEST_CASE("fault buffer_per_thread: each thread has buffers of its own, which come back in no order") {
  machine(1);
  Faults faults("buffer_per_thread");
  Client client(4096);
  spyreRecordApi(98, 1, 2, 0);  // this thread has the first buffer
  std::thread([] {
    for (int i = 0; i < 200; ++i) spyreRecordApi(99, 1, 2, 0);
  }).join();
  REQUIRE(eventually([&] { return !client.completions().empty(); }));
  REQUIRE(client.completions()[0].buffer == client.lent()[1]);
  client.collect();
  REQUIRE(client.calls(98).size() == 1);
  REQUIRE(client.calls(99).size() == 200);
  REQUIRE(client.out() == 0);
}

TEST_CASE("fault null_thread_ids: host calls name no thread") {
  machine(1);
  Faults faults("null_thread_ids");
  Client client;
  launch_three();
  client.collect();
  REQUIRE(client.calls().size() == 4);
  for (const auto& call : client.calls()) REQUIRE(call.thread_id == 0);
}

TEST_CASE("fault other_namespace: host calls and memory records bear other ids, the same ones each time") {
  machine(1);
  Faults faults("other_namespace");
  Client client;
  launch_three();
  client.collect();
  REQUIRE(client.calls().size() == 4);
  for (const auto& call : client.calls()) {
    REQUIRE(call.process_id != static_cast<uint32_t>(getpid()));
    REQUIRE(call.thread_id != static_cast<uint32_t>(gettid()));
    REQUIRE(call.process_id == client.calls()[0].process_id);
    REQUIRE(call.thread_id == client.calls()[0].thread_id);
  }
}

TEST_CASE("fault wrong_thread_ids: host calls name a thread that is not there, and this process") {
  machine(1);
  Faults faults("wrong_thread_ids");
  Client client;
  launch_three();
  client.collect();
  for (const auto& call : client.calls()) {
    REQUIRE(call.process_id == static_cast<uint32_t>(getpid()));
    REQUIRE(call.thread_id != static_cast<uint32_t>(gettid()));
    REQUIRE(call.thread_id != 0);
  }
}

TEST_CASE("fault api_field_order: the fields of a host call lie elsewhere, and its size is the same") {
  machine(1);
  Client client;
  OK(spyreSetFaults("api_field_order"));
  OK(spyreRecordApi(41, 1000, 2000, 77));
  client.collect(false);
  OK(spyreSetFaults(nullptr));
  OK(spyreRecordApi(42, 1000, 2000, 77));
  client.collect(false);
  const auto calls = records_of(client, AIUPTI_ACTIVITY_KIND_RUNTIME);
  REQUIRE(calls.size() == 2);
  const auto read = [&](auto value, size_t at) {
    std::memcpy(&value, reinterpret_cast<const uint8_t*>(calls[0]) + at, sizeof(value));
    return value;
  };
  const auto word = [&](size_t at) { return read(uint32_t{}, at); };
  const auto long_word = [&](size_t at) { return read(uint64_t{}, at); };
  REQUIRE(word(4) + 1 == client.calls()[1].correlation_id);
  REQUIRE(word(8) == static_cast<uint32_t>(gettid()));
  REQUIRE(word(12) == static_cast<uint32_t>(getpid()));
  REQUIRE(word(16) == 41);
  REQUIRE(long_word(24) == 77);
  REQUIRE(long_word(32) == 1000);
  REQUIRE(long_word(40) == 2000);
}

TEST_CASE("fault attributes: a text follows each host call's record, which is 256 bytes longer") {
  machine(1);
  Faults faults("attributes");
  Client client;
  for (int i = 0; i < 3; ++i) OK(spyreRecordApi(99, 1, 2, 0));
  launch("k", 1000);
  client.collect();
  REQUIRE(client.kernels().size() == 1);
  REQUIRE(client.read_errors().empty());
  const auto calls = records_of(client, AIUPTI_ACTIVITY_KIND_RUNTIME);
  REQUIRE(calls.size() == 5);
  REQUIRE(distance(calls[0], calls[1]) == sizeof(AIUpti_ActivityAPI) + 256);
  const auto* text = reinterpret_cast<const char*>(calls[0]) + sizeof(AIUpti_ActivityAPI);
  REQUIRE(std::string_view(text) == "call " + std::to_string(client.calls()[0].correlation_id));
}

TEST_CASE("fault short_compute: compute records end before the cycle stamps") {
  machine(1);
  Faults faults("short_compute");
  Client client;
  launch_three();
  client.collect();
  check_names(client);
  const auto kernels = records_of(client, AIUPTI_ACTIVITY_KIND_CMPT);
  REQUIRE(distance(kernels[0], kernels[1]) == offsetof(AIUpti_ActivityCompute, cycles_ts1));
}

TEST_CASE("fault collectives: kernels and copies name the collective that they belong to") {
  machine(1);
  Faults faults("collectives");
  Client client;
  const spyreCollective_t collective{7, 2, 4096};
  OK(spyreSetCollective(&collective));
  launch("within", 1000);
  OK(spyreMemcpy(0, nullptr, nullptr, 512, SPYRE_MEMCPY_DTOH, nullptr, SPYRE_ASYNC));
  OK(spyreSetCollective(nullptr));
  launch("outside", 1000);
  client.collect();
  REQUIRE(client.read_errors().empty());
  const auto tail = [](const auto* record, size_t bytes) {
    std::array<uint32_t, 6> words;
    std::memcpy(words.data(), reinterpret_cast<const char*>(record) + bytes, sizeof(words));
    return words;
  };
  const auto kernels = records_of(client, AIUPTI_ACTIVITY_KIND_CMPT);
  const auto copies = records_of(client, AIUPTI_ACTIVITY_KIND_MEMCPY);
  REQUIRE(kernels.size() == 2);
  REQUIRE(copies.size() == 1);
  const auto check = [&](const auto* record, size_t bytes, uint32_t id, std::array<uint32_t, 3> expected) {
    const auto words = tail(record, bytes);
    CHECK(words[0] == id);
    CHECK(words[1] == expected[0]);
    CHECK(words[2] == expected[1]);
    uint64_t whole = 0;
    std::memcpy(&whole, &words[4], sizeof(whole));
    CHECK(whole == expected[2]);
  };
  const auto* within = reinterpret_cast<const AIUpti_ActivityCompute*>(kernels[0]);
  const auto* copy = reinterpret_cast<const AIUpti_ActivityMemcpy*>(copies[0]);
  const auto* outside = reinterpret_cast<const AIUpti_ActivityCompute*>(kernels[1]);
  check(within, sizeof(*within), within->correlation_id, {7, 2, 4096});
  check(copy, sizeof(*copy), copy->correlation_id, {7, 2, 4096});
  check(outside, sizeof(*outside), outside->correlation_id, {0, 0, 0});
}

TEST_CASE("fault dmi_dmo: a kernel's parts lie one behind the other and last as long as the kernel") {
  machine(1);
  Faults faults("dmi_dmo");
  Client client;
  spyreKernel_t k = kernel("parts", 80'000);
  k.flops = 1e9;
  k.bytes_read = k.bytes_written = 1 << 20;
  OK(spyreLaunchKernel(0, nullptr, &k));
  client.collect();
  const auto parts = client.kernels();
  REQUIRE(parts.size() == 3);
  REQUIRE(parts[0].operation_kind == AIUPTI_ACTIVITY_KIND_DMI);
  REQUIRE(parts[1].operation_kind == AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE);
  REQUIRE(parts[2].operation_kind == AIUPTI_ACTIVITY_KIND_DMO);
  REQUIRE(parts[0].end == parts[1].start);
  REQUIRE(parts[1].end == parts[2].start);
  REQUIRE(parts[2].end - parts[0].start == 80'000);
  for (const auto& part : parts) REQUIRE(part.correlation_id == parts[0].correlation_id);
}
