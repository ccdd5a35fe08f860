// The names of libaiupti's runtime callback ids, and what a call's `data` means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kineto_spyre::aiupti {

// "aiuMalloc"; empty for an id that this build doesn't know, or whose name differs between releases and which the
// header that was found does not name. The text lives as long as the program.
std::string_view known_cbid_name(uint32_t cbid);
// The same, but "Unknown CBID <n>" in place of the empty text.
std::string cbid_name(uint32_t cbid);

// What data of a call's record counts.
enum class CbidData : uint8_t { kNothing, kControlBlocks, kBytes };
CbidData cbid_data(uint32_t cbid);

// Whether device work may follow from the call, under its correlation id. Where several host records share one id, the
// launch is the one for which this holds.
bool launches_device_work(uint32_t cbid);

}  // namespace kineto_spyre::aiupti
