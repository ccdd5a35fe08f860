// kineto_spyre._device: PyTorch's device "spyre". Importing it registers nothing; install() does.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>

#include "device/device.h"
#include "device/launch.h"
#include "device/runtime.h"
#include "device/storage_alias.h"

namespace py = pybind11;
namespace device = kineto_spyre::device;

namespace {

void launch(int index, const std::string& name, double flops, uint64_t read, uint64_t written, int dtype,
            int64_t begin) {
  const int64_t measured = device::elapsed_since(begin);
  const py::gil_scoped_release released;  // the device's thread may hold its lock and want the GIL
  device::launch(static_cast<c10::DeviceIndex>(index), name.c_str(),
                 {flops, read, written, static_cast<spyreDtype_t>(dtype)}, measured);
}

}  // namespace

PYBIND11_MODULE(_device, m) {
  // c10's errors become what torch's own do: torch.OutOfMemoryError, torch.AcceleratorError, RuntimeError ...
  py::register_exception_translator(
      [](std::exception_ptr e) {  // NOLINT(performance-unnecessary-value-param): pybind11's signature
        try {
          if (e) std::rethrow_exception(e);
        } catch (const c10::Error& error) {
          torch::translate_exception_to_python(e);
        }
      });
  m.def("install", &device::install, py::arg("measure"));
  m.def("installed", &device::installed);
  m.def("in_bad_fork", &device::in_bad_fork);
  m.def("refuse_in_fork", &device::refuse_in_fork);
  m.def("bytes_moved", &device::bytes_moved);
  m.def("device_count", [] { return int{device::device_count()}; });
  m.def("default_generator", [](int index) {
    const auto& generator = at::detail::getPrivateUse1Hooks().getDefaultGenerator(static_cast<c10::DeviceIndex>(index));
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(generator));
  });
  m.def("device_of_address",
        [](uint64_t address) { return spyrePointerDevice(reinterpret_cast<const void*>(address)); });
  m.def("stopwatch", &device::stopwatch);
  m.def("launch", launch, py::arg("device"), py::arg("name"), py::arg("flops"), py::arg("read"), py::arg("written"),
        py::arg("dtype"), py::arg("begin"));
  m.def("properties", [](int index) {
    spyreDeviceProperties_t p{};
    device::check(spyreGetDeviceProperties(device::resolve(static_cast<c10::DeviceIndex>(index)), &p),
                  "asking for a device's properties");
    return py::dict(py::arg("name") = std::string(p.name), py::arg("total_memory") = p.memory_total,
                    py::arg("cores") = p.cores, py::arg("scratchpad_bytes_per_core") = p.scratchpad_bytes_per_core);
  });
}
