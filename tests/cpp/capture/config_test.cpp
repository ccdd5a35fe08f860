#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "capture/capture.h"

using namespace kineto_spyre::capture;

TEST_CASE("a budget is what was asked for, 1 GiB if nothing was") {
  CHECK(Config().budget_bytes == size_t{1} << 30);
  CHECK(config_of(64).budget_bytes == size_t{64} << 20);
  CHECK(config_of(64).buffer_bytes == size_t{32} << 20);
  CHECK(config_of(0.5).budget_bytes == size_t{1} << 19);
}

TEST_CASE("a small budget still makes two buffers") {
  const Config config = config_of(0.453125);
  CHECK(config.buffer_bytes == 1024 * 232);
  CHECK(config.budget_bytes == 2 * config.buffer_bytes);
}

TEST_CASE("a budget lies between two buffers and this machine's memory") {
  for (double mib : {0.03125, 0.5, 32.0}) CHECK(is_budget(mib));
  for (double mib : {-1.0, 0.0, 0.001, 1e300, 99999999999.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    INFO(mib);
    CHECK_FALSE(is_budget(mib));
  }
}
