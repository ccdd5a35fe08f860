#include <string>

#include "capture/capture.h"
#include <catch2/catch.hpp>

using namespace kineto_spyre::capture;

namespace {

Config with(const char* value, size_t kineto_mb, std::string* warning) { return make_config(value, kineto_mb, warning); }

}  // namespace

TEST_CASE("the budget is KINETO_SPYRE_BUFFER_MB, else Kineto's, else 1 GiB") {
  std::string warning;
  CHECK(with(nullptr, 0, &warning).budget_bytes == size_t{1} << 30);
  CHECK(with("", 0, &warning).budget_bytes == size_t{1} << 30);
  CHECK(with(nullptr, 64, &warning).budget_bytes == size_t{64} << 20);
  CHECK(with("32", 64, &warning).budget_bytes == size_t{32} << 20);
  CHECK(with(nullptr, 64, &warning).buffer_bytes == size_t{32} << 20);
  CHECK(with("0.5", 0, &warning).budget_bytes == size_t{1} << 19);
  CHECK(warning.empty());
}

TEST_CASE("a small budget still makes two buffers") {
  std::string warning;
  const Config config = with("0.453125", 0, &warning);
  CHECK(config.buffer_bytes == 1024 * 232);
  CHECK(config.budget_bytes == 2 * config.buffer_bytes);
  CHECK(warning.empty());
}

TEST_CASE("an unreadable or absurd value gets a sentence that names it, and the default") {
  for (const char* value : {"lots", "64MB", "-1", "0", "nan", "inf", "1e300", "99999999999", "0.001", " 64", "0x40"}) {
    std::string warning;
    const Config config = with(value, 0, &warning);
    INFO(value);
    CHECK(config.budget_bytes == size_t{1} << 30);
    CHECK(warning.find("KINETO_SPYRE_BUFFER_MB is '" + std::string(value) + "'") == 0);
    CHECK(warning.find("MiB") != std::string::npos);
    CHECK(warning.find("The profiler uses 1024 MiB.") != std::string::npos);
  }
  std::string warning;
  CHECK(with(nullptr, size_t{1} << 40, &warning).budget_bytes == size_t{1} << 30);
  CHECK(warning.find("ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB is 1099511627776") == 0);
}
