#include "aiupti/cbid.h"

#include <libaiupti/aiupti_activity.h>

#include <set>
#include <string>

#include <catch2/catch.hpp>

using namespace kineto_spyre::aiupti;

TEST_CASE("every callback id that is publicly known has its name") {
  CHECK(cbid_name(0) == "aiuINVALID");
  CHECK(cbid_name(1) == "aiuLaunchControlBlocks");
  CHECK(cbid_name(2) == "aiuLaunchControlBlocks");
  CHECK(cbid_name(4) == "aiuLaunchDMOControlBlocks");
  CHECK(cbid_name(7) == "aiuMalloc");
  CHECK(cbid_name(17) == "aiuScheduleWait");
  CHECK(cbid_name(34) == "aiuDataTransferDtoH");
  CHECK(cbid_name(35) == "aiuDataTransferHtoD");
  CHECK(cbid_name(40) == "aiuVerifyAsyncMsgs");
  CHECK(cbid_name(42) == "aiuCommsCollAllgather");
  CHECK(cbid_name(59) == "aiuCommsWorkSchedHdmaRtMgr");
  CHECK(cbid_name(77) == "aiuCommsBenchAllreduce");
  std::set<std::string> names;
  for (uint32_t id = 0; id < 78; ++id) {
    if (id == 41) continue;
    CHECK(known_cbid_name(id).starts_with("aiu"));
    names.insert(cbid_name(id));
  }
  CHECK(names.size() == 75);  // LaunchControlBlocks and LaunchComputeStream have two ids each
}

TEST_CASE("an unknown callback id is shown as its number, and is no error") {
  for (const uint32_t id : {84u, 1000u, UINT32_MAX}) {
    CHECK(known_cbid_name(id).empty());
    CHECK(cbid_name(id) == "Unknown CBID " + std::to_string(id));
    CHECK(cbid_data(id) == CbidData::kNothing);
    CHECK_FALSE(launches_device_work(id));
  }
}

TEST_CASE("an id whose name differs between releases shows its number, unless the header that was found names it") {
  for (const uint32_t id : {41u, 78u, 79u}) {
    CHECK(known_cbid_name(id).empty());
    CHECK(cbid_name(id) == "Unknown CBID " + std::to_string(id));
  }
#ifdef SECOND_HEADER
  CHECK(cbid_name(81) == "aiuWaitForQueueCapacity");
#else
  CHECK(cbid_name(81) == "Unknown CBID 81");
#endif
  CHECK(cbid_name(80) == "Unknown CBID 80");
}

TEST_CASE("a number comes from the header that was found, and from ours where that has no name for it") {
#ifdef SECOND_HEADER
  CHECK(cbid_name(18) == "aiuClearCache");
  CHECK(cbid_name(20) == "aiuPrepareDMAs");
#else
  CHECK(cbid_name(18) == "aiuPrepareDMAs");
  CHECK(cbid_name(20) == "aiuClearCache");
#endif
  CHECK(cbid_name(77) == "aiuCommsBenchAllreduce");  // the second header doesn't have it
}

TEST_CASE("launches count control blocks, transfers bytes") {
  for (const uint32_t id : {1u, 2u, 3u, 4u}) CHECK(cbid_data(id) == CbidData::kControlBlocks);
  for (const uint32_t id : {30u, 31u, 32u, 33u, 34u, 35u}) CHECK(cbid_data(id) == CbidData::kBytes);
  for (const uint32_t id : {6u, 17u, 61u}) CHECK(cbid_data(id) == CbidData::kNothing);
}

TEST_CASE("calls from which device work follows") {
  for (const uint32_t id : {1u, 2u, 3u, 4u, 5u, 7u, 22u, 34u, 35u}) CHECK(launches_device_work(id));
  for (const uint32_t id : {0u, 6u, 17u, 36u, 41u, 78u, 79u}) CHECK_FALSE(launches_device_work(id));
}
