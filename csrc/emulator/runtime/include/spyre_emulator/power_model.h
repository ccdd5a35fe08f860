// How much power the emulated Spyre's work takes: the numbers, where each comes from, and the lines that use them.
//
// A card draws its idle power always. A kernel adds a fixed power while it runs, and energy for its operations and for
// the bytes that it moves; a copy or fill adds energy for its bytes. At the peak rates of the cost model that makes the
// card's 75 W. It is not a measurement of a card.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cost_model.h"

namespace kineto_spyre::emulator::model {

inline constexpr double kIdleWatts = 20;
inline constexpr double kKernelWatts = 5;
inline constexpr double kArithmeticWatts = 40;
inline constexpr double kMemoryJoulesPerByte = 40e-12;
inline constexpr double kLinkJoulesPerByte = 40e-12;
inline constexpr double kAmbientCelsius = 30;
inline constexpr double kCelsiusPerWatt = 0.6;
inline constexpr double kThermalSeconds = 20;
inline constexpr double kThrottleFactor = 2;

inline constexpr std::array kPowerNumbers{
    Number{"idle power", kIdleWatts, "W", "[aiu-smi]: its default for --idle-power"},
    Number{"power of a running kernel beside its work", kKernelWatts, "W", "assumed"},
    Number{"power of arithmetic at the peak rate", kArithmeticWatts, "W", "assumed; with the others, 75 W [docs]"},
    Number{"energy of device memory traffic", kMemoryJoulesPerByte, "J/B", "assumed: LPDDR5, 5 pJ a bit"},
    Number{"energy of link traffic", kLinkJoulesPerByte, "J/B", "assumed: 5 pJ a bit"},
    Number{"temperature of the air", kAmbientCelsius, "C", "assumed"},
    Number{"thermal resistance", kCelsiusPerWatt, "C/W", "assumed"},
    Number{"thermal time constant", kThermalSeconds, "s", "assumed"},
    Number{"a throttled kernel lasts longer by the factor", kThrottleFactor, "", "assumed (the fault throttle)"},
};

// Joules of a kernel's work, whatever its duration; kKernelWatts comes on top of it.
inline double kernel_work_joules(double flops, double bytes, spyreDtype_t dtype) {
  return kArithmeticWatts * flops / peak(dtype) + kMemoryJoulesPerByte * bytes;
}
inline double copy_joules(double bytes, bool over_link) {
  return (over_link ? kLinkJoulesPerByte : kMemoryJoulesPerByte) * bytes + kMemoryJoulesPerByte * bytes;
}
inline double fill_joules(double bytes) { return kMemoryJoulesPerByte * bytes; }

}  // namespace kineto_spyre::emulator::model
