// The power meter and the metrics file: energy is conserved, and what is shown is what the work draws.
#include "spyre_emulator/power_meter.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "spyre_emulator/clock.h"
#include "testing.h"

using namespace testing;
using kineto_spyre::emulator::Draw;
using kineto_spyre::emulator::PowerMeter;
namespace model = kineto_spyre::emulator::model;

namespace {

constexpr uint64_t kMs = 1'000'000;

bool near(double value, double wanted) { return std::abs(value - wanted) <= 1e-9 * std::max(1.0, std::abs(wanted)); }

// The file's numbers are little endian on every machine.
template <typename T>
T at(const std::string& bytes, size_t offset) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | static_cast<uint8_t>(bytes.at(offset + i)));
  return value;
}

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a meter gives each interval the energy of the work in it, short or long") {
  PowerMeter meter(5 * kMs);
  meter.add(10 * kMs, 10 * kMs + 500'000, Draw{0.5});        // within a cell
  meter.add(20 * kMs - 250'000, 20 * kMs + 750'000, {1.0});  // over two
  meter.add(30 * kMs, 230 * kMs, Draw{20});                  // long: 100 W
  REQUIRE(near(meter.advance(10 * kMs).joules, 0));
  REQUIRE(near(meter.advance(20 * kMs).joules, 0.75));
  REQUIRE(near(meter.advance(30 * kMs).joules, 0.75));
  for (uint64_t ms = 40; ms <= 230; ms += 10) REQUIRE(near(meter.advance(ms * kMs).joules, 1));
  REQUIRE(meter.advance(300 * kMs).joules == 0);
}

TEST_CASE("a meter loses no energy, whatever the times of the work and of the reading") {
  uint64_t seed = 12345;
  const auto random = [&](uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
  };
  PowerMeter meter(0);
  double put = 0, taken = 0;
  uint64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t start = now + random(30 * kMs), length = random(10) == 0 ? random(500 * kMs) : random(3 * kMs);
    const double joules = static_cast<double>(random(1000)) * 1e-3;
    const bool late = random(20) == 0 && start > 20 * kMs;
    meter.add(late ? start - 20 * kMs : start, (late ? start - 20 * kMs : start) + length, Draw{joules});
    put += joules;
    if (random(3) == 0) taken += meter.advance(now += random(12 * kMs)).joules;
  }
  taken += meter.advance(now + 3'000 * kMs).joules;
  REQUIRE(std::abs(put - taken) <= 1e-6 * put);
}

TEST_CASE("temperature follows power with the time constant of the model") {
  PowerMeter meter(0);
  const double cold = model::kAmbientCelsius + model::kCelsiusPerWatt * model::kIdleWatts;
  const double hot = cold + model::kCelsiusPerWatt * 50;
  REQUIRE(near(meter.celsius(), cold));
  meter.add(0, static_cast<uint64_t>(20e9), Draw{50 * 20});
  for (uint64_t ms = 10; ms <= 20'000; ms += 10) meter.advance(ms * kMs);
  REQUIRE(std::abs(meter.celsius() - (hot - (hot - cold) * std::exp(-20 / model::kThermalSeconds))) < 1e-6);
}

TEST_CASE("what a lost device would have done draws nothing") {
  PowerMeter meter(0);
  meter.add(10 * kMs, 210 * kMs, Draw{20});
  meter.add(50 * kMs, 51 * kMs, Draw{1});
  meter.add(300 * kMs, 500 * kMs, Draw{20});
  REQUIRE(near(meter.advance(20 * kMs).joules, 1));
  meter.forget_after(30 * kMs);
  REQUIRE(near(meter.advance(1'000 * kMs).joules, 1));
}

TEST_CASE("a metrics file has the published form, shows the work, and goes with its writer") {
  machine(1);
  char folder[] = "/tmp/metrics_test_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  OK(spyreWriteMetrics(folder));
  char path[256];
  OK(spyreGetMetricsPath(0, path, sizeof(path)));
  REQUIRE(std::string(path) == std::string(folder) + "/metrics.e000:01:00.0");
  spyreKernel_t kernel{};
  kernel.name = "load";
  kernel.ns = 300'000'000;
  kernel.watts = 25;
  kernel.bytes_read = 3 << 20;
  kernel.bytes_written = 1 << 20;
  OK(spyreLaunchKernel(0, nullptr, &kernel));
  OK(spyreMemcpy(0, nullptr, nullptr, 5 << 20, SPYRE_MEMCPY_HTOD, nullptr, SPYRE_ASYNC));
  std::map<uint64_t, uint64_t> power;  // by time in ms
  std::string last;
  const auto whole = [](const std::string& bytes) { return bytes.size() == 272 && bytes.compare(0, 4, "AiuM") == 0; };
  for (const uint64_t end = kineto_spyre::emulator::host_now_ns() + 450 * kMs;
       kineto_spyre::emulator::host_now_ns() < end;) {
    const std::string bytes = content(path), again = content(path);
    if (!whole(bytes) || bytes != again) continue;
    REQUIRE(at<uint32_t>(bytes, 4) == 272);
    REQUIRE(at<uint32_t>(bytes, 8) == 0x01000001);
    REQUIRE(at<uint32_t>(bytes, 12) == 2);
    REQUIRE(at<uint32_t>(bytes, 32) == 16);   // runtime
    REQUIRE(at<uint32_t>(bytes, 40) == 32);   // perf_counter
    REQUIRE(at<uint32_t>(bytes, 112) == 32);  // its section
    REQUIRE(at<uint32_t>(bytes, 136) == 10);  // interval
    REQUIRE(at<uint32_t>(bytes, 144) == 16);  // pwr
    power[at<uint64_t>(bytes, 16)] = at<uint64_t>(bytes, 208);
    last = bytes;
    usleep(1000);
  }
  REQUIRE(power.rbegin()->second == 200);  // idle again
  REQUIRE(std::count_if(power.begin(), power.end(), [](auto& one) { return one.second == 450; }) >= 5);
  for (const auto& [time, tenths] : power) REQUIRE((tenths >= 200 && tenths <= 450));
  REQUIRE(at<uint64_t>(last, 224) == 3 << 10);                // KiB of device memory read
  REQUIRE(at<uint64_t>(last, 232) == (1 << 10) + (5 << 10));  // and written
  REQUIRE(at<uint64_t>(last, 240) == 5 << 10);                // over the link
  std::map<std::string, double> energy;
  const auto add = [](const spyreEnergy_t* one, void* to) {
    (*static_cast<std::map<std::string, double>*>(to))[one->name] = one->joules;
  };
  OK(spyreGetEnergy(0, add, &energy));
  REQUIRE(near(energy.at("load"), 25 * 0.3));
  REQUIRE(near(energy.at("Memcpy (HtoD)"), model::copy_joules(5 << 20, true)));
  OK(spyreWriteMetrics(nullptr));
  struct stat gone;
  REQUIRE(stat(path, &gone) != 0);
  REQUIRE(rmdir(folder) == 0);
}

TEST_CASE("a directory that is not there is refused with its name") {
  machine(1);
  REQUIRE(spyreWriteMetrics("/nonexistent/folder") == SPYRE_ERROR_INVALID_VALUE);
  REQUIRE(std::string(spyreGetLastErrorString()).find("/nonexistent/folder/metrics.") != std::string::npos);
  char path[8];
  OK(spyreGetMetricsPath(0, path, sizeof(path)));
  REQUIRE(std::string(path).empty());
}

TEST_CASE("a card as hot as the fault says makes modelled kernels last twice as long") {
  machine(1);
  char folder[] = "/tmp/metrics_test_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  OK(spyreWriteMetrics(folder));
  spyreKernel_t kernel{};
  kernel.name = "modelled";
  kernel.ns = -1;
  kernel.flops = 1e9;
  const auto lasted = [&] {
    uint64_t ns = 0;
    OK(spyreLaunchKernel(0, nullptr, &kernel));
    OK(spyreDeviceSynchronize(0));
    OK(spyreGetEnergy(0, [](const spyreEnergy_t* one, void* to) { *static_cast<uint64_t*>(to) = one->ns; }, &ns));
    return ns;
  };
  const uint64_t cool = lasted();
  OK(spyreSetFaults("throttle=40C"));  // idle is 42 degrees
  usleep(100'000);
  const double ratio = static_cast<double>(lasted() - cool) / static_cast<double>(cool);
  OK(spyreSetFaults(nullptr));
  REQUIRE((ratio > 1.9 && ratio < 2.1));
  OK(spyreWriteMetrics(nullptr));
  REQUIRE(rmdir(folder) == 0);
}
