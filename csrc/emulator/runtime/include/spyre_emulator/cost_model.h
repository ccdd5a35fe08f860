// How long work takes on the emulated Spyre: the numbers, where each comes from, and the few lines that use them.
//
// It is a roofline. A kernel lasts a fixed overhead plus the longer of its arithmetic (at the peak rate of its dtype,
// on the cores that the work divides over) and its traffic with device memory. Work divides by sticks of output: a
// kernel that writes fewer sticks than there are cores leaves cores idle. What a kernel touches passes through the
// scratchpads of its cores; where it doesn't fit at once it goes in tiles, and each further tile costs a little.
// Copies between host and device run at the rate of the link, after its latency.
//
// It gives a timeline that one can reason about. It is not a measurement of a card, and nothing was tuned to one.
//
// Each number has its source beside it in kNumbers; kSources says what their names stand for. "assumed": no public
// figure was found, and it was chosen so that timelines look plausible.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime.h"

namespace kineto_spyre::emulator::model {

inline constexpr int kCores = 32;
inline constexpr uint64_t kScratchpadBytesPerCore = 2u << 20;
inline constexpr double kScratchpadShare = 0.8;
inline constexpr uint64_t kStickBytes = 128;
inline constexpr double kCoreHz = 1.1e9;
inline constexpr double kCycleStampHz = 1.0e9;
inline constexpr double kPeakFp16 = kCores * 2 * 64 * 8 * 2 * kCoreHz;  // 72.1e12
inline constexpr double kPeakFp8 = 2 * kPeakFp16;
inline constexpr double kPeakInt8 = 300e12;
inline constexpr double kPeakFp32 = kPeakFp16 / 4;
inline constexpr double kPeakOther = kPeakFp16 / 8;
inline constexpr double kMemoryBytesPerSecond = 200e9;
inline constexpr double kRingBytesPerSecondPerCore = 128 * kCoreHz;
inline constexpr double kLinkBytesPerSecond = 16 * 32e9 * (128.0 / 130.0) / 8;
inline constexpr double kLinkEfficiency = 0.85;
inline constexpr uint64_t kLinkLatencyNs = 1500;
inline constexpr uint64_t kLaunchLatencyNs = 2000;
inline constexpr uint64_t kLaunchGapNs = 400;
inline constexpr uint64_t kDispatchNs = 200;
inline constexpr uint64_t kLaunchQueueDepth = 65536;
inline constexpr uint64_t kControlBlockGapNs = 50;
inline constexpr uint64_t kKernelOverheadNs = 1500;
inline constexpr uint64_t kPrepareNs = 400;
inline constexpr uint64_t kTileNs = 500;
inline constexpr double kJitter = 0.02;

struct Number {
  const char* name;
  double value;
  const char* unit;
  const char* source;
};

inline constexpr std::array kSources{
    "[docs]     torch-spyre's documentation, \"IBM Spyre device\"",
    "[ibm]      IBM Community, \"Validation frameworks for Spyre AI Accelerator\", September 2025",
    "[rapid]    Venkataramani et al., \"RaPiD: AI accelerator for ultra-low precision training and inference\", ISCA "
    "2021",
    "[pcie]     PCI Express Base Specification, revision 5.0",
    "[acelyzer] IBM's aiu-trace-analyzer: its default clocks and what TS1 to TS5 mean",
    "[aiu-smi]  IBM's aiu-smi 1.3.1",
    "assumed    no public figure was found; chosen so that timelines look plausible",
};

// Every number above, for `kineto-spyre device`.
inline constexpr std::array kNumbers{
    Number{"cores", kCores, "", "[docs]"},
    Number{"scratchpad per core", kScratchpadBytesPerCore, "B", "[docs]"},
    Number{"share of the scratchpad that a kernel may use", kScratchpadShare, "", "[docs]: the compiler's part"},
    Number{"stick", kStickBytes, "B", "[docs]"},
    Number{"core clock", kCoreHz, "Hz", "[acelyzer]"},
    Number{"cycle stamp clock", kCycleStampHz, "Hz", "[acelyzer]: the SoC's clock"},
    Number{"peak fp16", kPeakFp16, "FLOP/s",
           "32 cores x 2 corelets x 8x8 elements [docs] x 8-way multiply-add [rapid] x core clock"},
    Number{"peak fp8", kPeakFp8, "FLOP/s", "twice fp16 [rapid]"},
    Number{"peak int8", kPeakInt8, "OP/s", "[docs]: over 300 TOPS a card"},
    Number{"peak fp32", kPeakFp32, "FLOP/s", "assumed: a quarter of fp16"},
    Number{"peak of other dtypes", kPeakOther, "OP/s", "assumed: an eighth of fp16"},
    Number{"device memory bandwidth", kMemoryBytesPerSecond, "B/s", "[ibm]: LPDDR5"},
    Number{"ring bandwidth of a core", kRingBytesPerSecondPerCore, "B/s", "[docs]: 128 B a cycle and direction"},
    Number{"link bandwidth", kLinkBytesPerSecond, "B/s", "[docs] and [pcie]: Gen5 x16, one direction, 128b/130b"},
    Number{"link efficiency", kLinkEfficiency, "", "assumed"},
    Number{"link latency", kLinkLatencyNs, "ns", "assumed"},
    Number{"launch latency, host call to start on an idle stream", kLaunchLatencyNs, "ns", "assumed"},
    Number{"gap between work queued back to back", kLaunchGapNs, "ns", "assumed"},
    Number{"dispatch, the part of it from submitted to start", kDispatchNs, "ns", "assumed"},
    Number{"launches that a stream's queue holds; further ones wait", kLaunchQueueDepth, "", "assumed"},
    Number{"gap between control blocks of one launch", kControlBlockGapNs, "ns", "assumed"},
    Number{"kernel overhead", kKernelOverheadNs, "ns", "assumed"},
    Number{"preparation, the part of it from TS2 to TS3", kPrepareNs, "ns", "assumed"},
    Number{"each further tile", kTileNs, "ns", "assumed"},
    Number{"spread of modelled durations, either way", kJitter, "", "assumed"},
};

constexpr double peak(spyreDtype_t dtype) {
  switch (dtype) {
    case SPYRE_DTYPE_FP16:
      return kPeakFp16;
    case SPYRE_DTYPE_FP32:
      return kPeakFp32;
    case SPYRE_DTYPE_FP8:
      return kPeakFp8;
    case SPYRE_DTYPE_INT8:
      return kPeakInt8;
    case SPYRE_DTYPE_OTHER:
      break;
  }
  return kPeakOther;
}

// The parts of a kernel in the order in which they happen; their sum is its duration. In a record's cycle stamps:
// TS1 -in- TS2 -prepare- TS3 -execute- TS4 -out- TS5.
struct Phases {
  uint64_t in = 0, prepare = 0, execute = 0, out = 0;
  constexpr uint64_t total() const { return in + prepare + execute + out; }
};

struct Cost {
  uint64_t ns = 0;
  double in = 1, execute = 5, out = 1;  // weights of the phases beside the preparation
  uint64_t scratchpad_bytes = 0;
  bool spills = false;  // it touches more than the scratchpad that it may use
};

constexpr int cores_for(uint64_t bytes_written) {
  return static_cast<int>(std::clamp<uint64_t>((bytes_written + kStickBytes - 1) / kStickBytes, 1, kCores));
}

// What parts of a kernel's work take by themselves, in seconds: reading its input, its arithmetic, writing its output.
struct Parts {
  double in = 0, execute = 0, out = 0;
};

inline Parts parts_of(double flops, uint64_t bytes_read, uint64_t bytes_written, spyreDtype_t dtype, int cores) {
  const double bandwidth = std::min(kMemoryBytesPerSecond, cores * kRingBytesPerSecondPerCore);
  return {static_cast<double>(bytes_read) / bandwidth, flops / (peak(dtype) * cores / kCores),
          static_cast<double>(bytes_written) / bandwidth};
}

inline Cost kernel_cost(double flops, uint64_t bytes_read, uint64_t bytes_written, spyreDtype_t dtype) {
  const int cores = cores_for(bytes_written);
  const auto [in, execute, out] = parts_of(flops, bytes_read, bytes_written, dtype, cores);
  const double room = kScratchpadShare * static_cast<double>(kScratchpadBytesPerCore) * cores;
  const double touched = static_cast<double>(bytes_read) + static_cast<double>(bytes_written);
  const double tiles = std::max(1.0, touched / room);
  // 1e18 ns are 31 years: absurd requests stay representable.
  const double ns = kKernelOverheadNs + 1e9 * std::max(execute, in + out) + kTileNs * (tiles - 1);
  Cost cost;
  cost.ns = static_cast<uint64_t>(std::min(ns, 1e18));
  if (in + execute + out > 0) {
    cost.in = in;
    cost.execute = execute;
    cost.out = out;
  }
  const auto used = static_cast<uint64_t>(std::min(touched, room));
  cost.spills = touched > room;
  cost.scratchpad_bytes = (used + kStickBytes - 1) / kStickBytes * kStickBytes;
  return cost;
}

inline Phases phases_of(uint64_t duration_ns, const Cost& cost) {
  Phases phases;
  phases.prepare = std::min(kPrepareNs, duration_ns / 8);
  const auto rest = static_cast<double>(duration_ns - phases.prepare);
  const double scale = rest / (cost.in + cost.execute + cost.out);
  phases.in = static_cast<uint64_t>(cost.in * scale);
  phases.out = static_cast<uint64_t>(cost.out * scale);
  phases.execute = duration_ns - phases.prepare - std::min(duration_ns - phases.prepare, phases.in + phases.out);
  return phases;
}

inline uint64_t copy_ns(uint64_t bytes) {
  const double ns = kLinkLatencyNs + 1e9 * static_cast<double>(bytes) / (kLinkBytesPerSecond * kLinkEfficiency);
  return static_cast<uint64_t>(std::min(ns, 1e18));
}

inline uint64_t fill_ns(uint64_t bytes) {
  const double ns = kKernelOverheadNs + 1e9 * static_cast<double>(bytes) / kMemoryBytesPerSecond;
  return static_cast<uint64_t>(std::min(ns, 1e18));
}

// A factor in [1 - kJitter, 1 + kJitter] that depends on nothing but the seed and the work's place in its stream.
inline double jitter(uint64_t seed, uint32_t device, uint32_t stream, uint64_t sequence) {
  uint64_t x = seed ^ (uint64_t{device} << 56) ^ (uint64_t{stream} << 40) ^ sequence;  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  const double unit = static_cast<double>(x >> 11) * 0x1p-53;
  return 1 + kJitter * (2 * unit - 1);
}

}  // namespace kineto_spyre::emulator::model
