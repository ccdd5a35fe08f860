// Of the module _emulator: metrics files, energy, and the power meter in simulated time.
#pragma once

#include <pybind11/pybind11.h>

void bind_power(pybind11::module_& module);
