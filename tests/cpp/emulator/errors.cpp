#include "testing.h"

using namespace testing;

namespace {
void says(const char* part) {
  INFO(spyreGetLastErrorString());
  REQUIRE(std::string_view(spyreGetLastErrorString()).find(part) != std::string_view::npos);
}
}  // namespace

TEST_CASE("bad arguments get an error and a sentence that names them") {
  machine(2);
  spyreConfig_t config{9, 0, SPYRE_TIME_MODELLED, 0, 0};
  REQUIRE(spyreInit(&config) == SPYRE_ERROR_INVALID_VALUE);
  says("1 to 8 devices; 9");
  REQUIRE(spyreInit(nullptr) == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(spyreDeviceSynchronize(2) == SPYRE_ERROR_INVALID_DEVICE);
  says("no device 2");
  REQUIRE(spyreDeviceSynchronize(-1) == SPYRE_ERROR_INVALID_DEVICE);
  const spyreKernel_t k = kernel("x", 1);
  REQUIRE(spyreLaunchKernel(0, stream(2, 1), &k) == SPYRE_ERROR_INVALID_VALUE);
  says("stream 2 belongs to device 1");
  REQUIRE(spyreLaunchKernel(0, nullptr, nullptr) == SPYRE_ERROR_INVALID_VALUE);
  const spyreKernel_t negative = kernel("x", 1, -3);
  REQUIRE(spyreLaunchKernel(0, nullptr, &negative) == SPYRE_ERROR_INVALID_VALUE);
  says("count -3");
  char host[8] = {};
  REQUIRE(spyreMemcpy(0, host, host, 8, SPYRE_MEMCPY_HTOD, nullptr, 0) == SPYRE_ERROR_INVALID_VALUE);
  says("destination of a copy of 8 bytes");
  REQUIRE(spyreMemcpy(0, host, host, 8, SPYRE_MEMCPY_DTOH, nullptr, 0) == SPYRE_ERROR_INVALID_VALUE);
  says("source of a copy of 8 bytes");
  REQUIRE(spyreMemcpy(0, host, nullptr, 8, SPYRE_MEMCPY_DTOH, nullptr, 0) == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(spyreMemcpy(0, host, host, 8, static_cast<spyreMemcpyKind_t>(0), nullptr, 0) == SPYRE_ERROR_INVALID_VALUE);
  says("0 is none");
  REQUIRE(spyreMemset(0, host, 0, 8, nullptr, 0) == SPYRE_ERROR_INVALID_VALUE);
  spyreStream_t none;
  REQUIRE(spyreStreamGet(0, 0, &none) == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(spyreStreamGet(0, 1025, &none) == SPYRE_ERROR_INVALID_VALUE);
  says("1025 is not");
  REQUIRE(spyreStreamDestroy(nullptr) == SPYRE_ERROR_INVALID_VALUE);
  spyreEvent_t event;
  OK(spyreEventCreate(0, 0, &event));
  REQUIRE(spyreEventRecord(event, 1, nullptr) == SPYRE_ERROR_INVALID_VALUE);
  says("event of device 0");
  OK(spyreEventDestroy(event));
  REQUIRE(spyreRecordApi(1, 20, 10, 0) == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(aiuptiActivityRegisterCallbacks(nullptr, nullptr) == AIUPTI_ERROR_INVALID_PARAMETER);
}

TEST_CASE("an equal configuration changes nothing; another one is refused while the machine is in use") {
  machine(1);
  void* block;
  OK(spyreMalloc(0, 100, nullptr, &block));
  machine(1);
  const spyreConfig_t other{2, 64u << 20, SPYRE_TIME_MODELLED, 1, 1};
  REQUIRE(spyreInit(&other) == SPYRE_ERROR_INVALID_VALUE);
  says("in use");
  OK(spyreFree(0, block));
  spyreEvent_t event;
  OK(spyreEventCreate(0, 0, &event));
  REQUIRE(spyreInit(&other) == SPYRE_ERROR_INVALID_VALUE);
  OK(spyreEventDestroy(event));
  spyreStream_t made;
  OK(spyreStreamCreate(0, 0, &made));
  REQUIRE(spyreInit(&other) == SPYRE_ERROR_INVALID_VALUE);
  OK(spyreStreamDestroy(made));
  launch("still running", 5'000'000);
  OK(spyreInit(&other));
  int32_t count;
  OK(spyreGetDeviceCount(&count));
  REQUIRE(count == 2);
}

TEST_CASE("specifications of faults that can't be read are refused, naming what is wrong") {
  machine(1);
  const std::pair<const char*, const char*> cases[] = {
      {"nonsense=1", "no fault 'nonsense'"},
      {"drop", "'drop' takes a value, written drop=value"},
      {"drop=0", "takes a number of at least 1"},
      {"drop=1,,late=1ms", "'' is not"},
      {"=1", "written key=value"},
      {"late=5parsecs", "'5parsecs' is not one"},
      {"late=-5ms", "takes a duration"},
      {"clock_offset=8:1ms", "a device from 0 to 7"},
      {"clock_offset=1:", "takes a duration"},
      {"clock_drift=nan", "parts per million"},
      {"size=3", "multiple of 8"},
      {"fail=enable+everything", "joined by +"},
      {"early=yes", "takes 0 or 1"},
      {"hang=0", "at least 1"},
      {"end_code=0", "a result code from 1 to 1023"},
      {"end_code=1024", "a result code from 1 to 1023"},
      {"buffer_limit=0", "at least 1"},
      {"flush_when_disabled", "takes a value"},
      {"flush_when_disabled=1", "'nothing' or 'fail'"},
  };
  for (const auto& [specification, part] : cases) {
    REQUIRE(spyreSetFaults(specification) == SPYRE_ERROR_INVALID_VALUE);
    says(part);
  }
  OK(spyreSetFaults(" drop = 3 , clock_offset = 0:-1.5ms , clock_drift=1:50ppm "));
  OK(spyreSetFaults(" discard_at_disable , rotate_at_flush=0, short_compute"));
  OK(spyreSetFaults(""));
}

TEST_CASE("the cost model: more work takes longer, absurd work is representable") {
  const auto ns = [](double flops, uint64_t read, uint64_t written, spyreDtype_t dtype) {
    return model::kernel_cost(flops, read, written, dtype).ns;
  };
  REQUIRE(ns(0, 0, 0, SPYRE_DTYPE_FP16) == model::kKernelOverheadNs);
  REQUIRE(ns(1e12, 1000, 1 << 20, SPYRE_DTYPE_FP16) < ns(1e12, 1000, 1 << 20, SPYRE_DTYPE_FP32));
  REQUIRE(ns(1e12, 1000, 1 << 20, SPYRE_DTYPE_FP8) < ns(1e12, 1000, 1 << 20, SPYRE_DTYPE_FP16));
  REQUIRE(ns(1e9, 1000, 128, SPYRE_DTYPE_FP16) > 20 * ns(1e9, 1000, 1 << 20, SPYRE_DTYPE_FP16));  // one core, not 32
  // 200 GB/s: a GB takes 5 ms, and goes through the scratchpads in tiles.
  REQUIRE(ns(0, 1'000'000'000, 1 << 20, SPYRE_DTYPE_FP16) > 5'000'000);
  REQUIRE(ns(0, 1'000'000'000, 1 << 20, SPYRE_DTYPE_FP16) < 5'100'000);
  REQUIRE(ns(1e300, UINT64_MAX, UINT64_MAX, SPYRE_DTYPE_OTHER) == 1'000'000'000'000'000'000u);
  for (uint64_t duration : {0u, 1u, 7u, 8u, 1000u, 123'457u}) {
    for (const auto& cost : {model::Cost{}, model::kernel_cost(1e9, 1, 1 << 20, SPYRE_DTYPE_FP16),
                             model::kernel_cost(0, 1 << 30, 1, SPYRE_DTYPE_FP16)}) {
      REQUIRE(model::phases_of(duration, cost).total() == duration);
    }
  }
  double least = 2, most = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const double factor = model::jitter(1, 0, 1, i);
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  REQUIRE(least >= 1 - model::kJitter);
  REQUIRE(most <= 1 + model::kJitter);
  REQUIRE(most - least > model::kJitter);
}
