#include "power.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <vector>

#include "spyre_emulator/power_meter.h"
#include "spyre_emulator/runtime.h"

namespace py = pybind11;

namespace {

void check(spyreError_t error) {
  if (error != SPYRE_SUCCESS) throw py::value_error(spyreGetLastErrorString());
}

std::string metrics_path(int32_t device) {
  char path[4096];
  check(spyreGetMetricsPath(device, path, sizeof(path)));
  return path;
}

py::dict energy(int32_t device) {
  py::dict found;
  const auto add = [](const spyreEnergy_t* one, void* to) {
    (*static_cast<py::dict*>(to))[one->name] = py::make_tuple(one->joules, one->count, one->ns);
  };
  check(spyreGetEnergy(device, add, &found));
  return found;
}

// What a meter shows every `interval_ns`, of work given as (start, end, joules): a pair of watts and Celsius each.
std::vector<std::tuple<double, double>> simulate_power(const std::vector<std::tuple<uint64_t, uint64_t, double>>& work,
                                                       uint64_t interval_ns, uint64_t count) {
  using namespace kineto_spyre::emulator;
  if (interval_ns == 0) throw py::value_error("interval_ns is at least 1");
  PowerMeter meter(0);
  for (const auto& [start, end, joules] : work) {
    if (end < start) throw py::value_error("work can't end before it begins");
    meter.add(start, end, Draw{joules});
  }
  std::vector<std::tuple<double, double>> shown;
  for (uint64_t i = 1; i <= count; ++i) {
    const double joules = meter.advance(i * interval_ns).joules;
    shown.emplace_back(model::kIdleWatts + joules / (static_cast<double>(interval_ns) * 1e-9), meter.celsius());
  }
  return shown;
}

}  // namespace

void bind_power(py::module_& module) {
  module.def(
      "write_metrics",
      [](const char* directory) {
        spyreError_t error;
        {
          py::gil_scoped_release released;  // waits for the thread that writes
          error = spyreWriteMetrics(directory);
        }
        check(error);
      },
      py::arg("directory").none(true));
  module.def("metrics_path", metrics_path, py::arg("device"));
  module.def("energy", energy, py::arg("device"));
  module.def("simulate_power", simulate_power, py::arg("work"), py::arg("interval_ns"), py::arg("count"));
  module.attr("IDLE_WATTS") = kineto_spyre::emulator::model::kIdleWatts;
}
