// Numbers of fields and values of Perfetto's messages, from perfetto/trace/perfetto_trace.proto. A test reads all that
// is written with the published messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kineto_spyre::writer {

namespace packet {
enum : uint32_t {
  kPacket = 1,
  kClocks = 6,
  kTimestamp = 8,
  kSequence = 10,
  kTrackEvent = 11,
  kInterned = 12,
  kFlags = 13,
  kClockId = 58,
  kDefaults = 59,
  kTrack = 60
};
}
namespace track {
enum : uint32_t {
  kUuid = 1,
  kName = 2,
  kProcess = 3,
  kThread = 4,
  kParent = 5,
  kChildOrdering = 11,
  kRank = 12,
  kMerge = 15,
  kPid = 1,
  kTid = 2,
  kThreadName = 5,
  kProcessName = 6
};
}
namespace slice {
enum : uint32_t {
  kCategory = 3,
  kArgument = 4,
  kType = 9,
  kName = 10,
  kTrack = 11,
  kNameText = 23,
  kFlow = 47,
  kLastFlow = 48
};
}
namespace argument {
enum : uint32_t { kName = 1, kInt = 4, kString = 6, kNameText = 10 };
}
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr uint64_t kBoot = 6, kRealtime = 1, kOurs = 64;  // clocks; from 64 on a sequence's own
constexpr size_t kMostNumbers = 512;                      // bytes of a slice's packet, without arrows

}  // namespace kineto_spyre::writer
