// _emulator: the emulated Spyre below PyTorch, for kineto_spyre/emulator. Errors become Python exceptions with the
// runtime's own sentence. Whatever may wait gives the GIL away.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "power.h"
#include "spyre_emulator/cost_model.h"
#include "spyre_emulator/power_model.h"
#include "spyre_emulator/runtime.h"

namespace py = pybind11;
namespace model = kineto_spyre::emulator::model;

namespace {

void check(spyreError_t error) {
  if (error == SPYRE_SUCCESS) return;
  const char* sentence = spyreGetLastErrorString();
  switch (error) {
    case SPYRE_ERROR_INVALID_VALUE:
    case SPYRE_ERROR_INVALID_DEVICE:
      PyErr_SetString(PyExc_ValueError, sentence);
      break;
    case SPYRE_ERROR_OUT_OF_MEMORY:
      PyErr_SetString(PyExc_MemoryError, sentence);
      break;
    case SPYRE_ERROR_TIMEOUT:
      PyErr_SetString(PyExc_TimeoutError, sentence);
      break;
    default:
      PyErr_SetString(PyExc_RuntimeError, sentence);
  }
  throw py::error_already_set();
}

// Calls the runtime without the GIL.
template <typename Function>
void waiting(Function&& function) {
  spyreError_t error;
  {
    py::gil_scoped_release released;
    error = function();
  }
  check(error);
}

spyreStream_t stream_of(int32_t device, uint32_t id) {
  if (id == 1) return nullptr;
  spyreStream_t stream = nullptr;
  check(spyreStreamGet(device, id, &stream));
  return stream;
}

void init(int32_t devices, uint64_t memory_bytes, bool measured, std::optional<uint64_t> seed) {
  const spyreConfig_t config{devices, memory_bytes, measured ? SPYRE_TIME_MEASURED : SPYRE_TIME_MODELLED,
                             seed.has_value(), seed.value_or(0)};
  waiting([&] { return spyreInit(&config); });
}

// A Python function that the device's thread runs when the stream comes to it, once.
void run_python(void* argument) {
  auto* function = static_cast<PyObject*>(argument);
  if (!Py_IsInitialized()) return;
  py::gil_scoped_acquire acquired;
  PyObject* result = PyObject_CallNoArgs(function);
  if (result == nullptr) PyErr_WriteUnraisable(function);  // nobody waits for it who could be told
  Py_XDECREF(result);
  Py_DECREF(function);
}

void launch(int32_t device, uint32_t stream, const std::string& name, int64_t ns, int32_t count, double flops,
            uint64_t bytes_read, uint64_t bytes_written, int dtype, double watts, const py::object& work) {
  spyreKernel_t kernel{};
  kernel.name = name.c_str();
  kernel.ns = ns;
  kernel.flops = flops;
  kernel.bytes_read = bytes_read;
  kernel.bytes_written = bytes_written;
  kernel.dtype = static_cast<spyreDtype_t>(dtype);
  kernel.measured_ns = -1;
  kernel.watts = watts;
  kernel.count = count;
  if (!work.is_none()) {
    kernel.work = run_python;
    kernel.work_arg = work.inc_ref().ptr();
  }
  const spyreStream_t on = stream_of(device, stream);
  spyreError_t error;
  {
    py::gil_scoped_release released;  // the device's thread may hold its lock and want the GIL
    error = spyreLaunchKernel(device, on, &kernel);
  }
  if (error != SPYRE_SUCCESS && kernel.work != nullptr) work.dec_ref();
  check(error);
}

std::string describe_model() {
  std::string text =
      "The emulated Spyre's cost model: a roofline over public figures. A kernel lasts its overhead plus the longer "
      "of\n"
      "its arithmetic (at the peak rate of its dtype, on the cores that its output's sticks divide over) and its\n"
      "traffic with device memory, plus a little for each tile beyond the first that fits the scratchpads.\n"
      "It is not a measurement of a card.\n\n";
  const auto add = [&](const auto& numbers) {
    for (const auto& number : numbers) {
      char line[256];
      std::snprintf(line, sizeof(line), "%-52s %12.6g %-7s %s\n", number.name, number.value, number.unit,
                    number.source);
      text += line;
    }
  };
  add(model::kNumbers);
  add(model::kPowerNumbers);
  text += "\nSources\n";
  for (const auto& source : model::kSources) text += std::string("  ") + source + "\n";
  return text;
}

void define_machine(py::module_& module) {
  module.def("init", init, py::arg("devices"), py::arg("memory_bytes"), py::arg("measured"), py::arg("seed"));
  module.def("is_initialized", [] { return spyreIsInitialized() != 0; });
  module.def("device_count", [] {
    int32_t count = 0;
    check(spyreGetDeviceCount(&count));
    return count;
  });
  module.def(
      "properties",
      [](int32_t device) {
        spyreDeviceProperties_t properties;
        check(spyreGetDeviceProperties(device, &properties));
        py::dict result;
        result["name"] = properties.name;
        result["memory_total"] = properties.memory_total;
        result["memory_free"] = properties.memory_free;
        result["cores"] = properties.cores;
        result["scratchpad_bytes_per_core"] = properties.scratchpad_bytes_per_core;
        return result;
      },
      py::arg("device"));
  module.def(
      "scratchpad",
      [](int32_t device) {
        spyreScratchpad_t found;
        check(spyreGetScratchpad(device, &found));
        return std::map<std::string, uint64_t>{{"capacity", found.capacity},
                                               {"usable", found.usable},
                                               {"largest", found.largest},
                                               {"kernels", found.kernels},
                                               {"spills", found.spills}};
      },
      py::arg("device"));
  module.def("reset_scratchpad", [](int32_t device) { check(spyreResetScratchpad(device)); }, py::arg("device"));
  module.def(
      "clock",
      [](int32_t device, uint64_t host_ns) {
        uint64_t device_ns = 0;
        check(spyreDeviceTimeAt(device, host_ns, &device_ns));
        return device_ns;
      },
      py::arg("device"), py::arg("host_ns"));
  module.def(
      "set_faults", [](const std::string& specification) { check(spyreSetFaults(specification.c_str())); },
      py::arg("specification"));
}

void define_model(py::module_& module) {
  module.def("describe_model", describe_model);
  module.def("cores_for", &model::cores_for, py::arg("bytes_written"));
  module.def(
      "parts",
      [](double flops, uint64_t read, uint64_t written, int dtype, int cores) {
        const auto type = static_cast<spyreDtype_t>(dtype);
        const auto [in, execute, out] = model::parts_of(flops, read, written, type, cores);
        return py::make_tuple(in, execute, out,
                              model::kernel_work_joules(flops, static_cast<double>(read + written), type));
      },
      py::arg("flops"), py::arg("bytes_read"), py::arg("bytes_written"), py::arg("dtype"), py::arg("cores"));
  module.attr("KERNEL_OVERHEAD_NS") = model::kKernelOverheadNs;
  module.attr("KERNEL_WATTS") = model::kKernelWatts;
  module.attr("STICK_BYTES") = model::kStickBytes;
  module.attr("CORES") = model::kCores;
}

void define_memory(py::module_& module) {
  module.def(
      "alloc",
      [](int32_t device, uint32_t stream, uint64_t bytes) {
        void* address = nullptr;
        check(spyreMalloc(device, bytes, stream_of(device, stream), &address));
        return reinterpret_cast<uint64_t>(address);
      },
      py::arg("device"), py::arg("stream"), py::arg("bytes"));
  module.def(
      "free", [](int32_t device, uint64_t address) { check(spyreFree(device, reinterpret_cast<void*>(address))); },
      py::arg("device"), py::arg("address"));
}

void define_work(py::module_& module) {
  module.def("launch", launch, py::arg("device"), py::arg("stream"), py::arg("name"), py::arg("ns"), py::arg("count"),
             py::arg("flops"), py::arg("bytes_read"), py::arg("bytes_written"), py::arg("dtype"), py::arg("watts"),
             py::arg("work"));
  module.def(
      "copy",
      [](int32_t device, uint32_t stream, int kind, uint64_t bytes, bool blocking) {
        const spyreStream_t on = stream_of(device, stream);
        waiting([&] {
          return spyreMemcpy(device, nullptr, nullptr, bytes, static_cast<spyreMemcpyKind_t>(kind), on,
                             blocking ? SPYRE_BLOCKING : SPYRE_ASYNC);
        });
      },
      py::arg("device"), py::arg("stream"), py::arg("kind"), py::arg("bytes"), py::arg("blocking"));
  module.def(
      "fill",
      [](int32_t device, uint32_t stream, uint64_t address, int value, uint64_t bytes, bool blocking) {
        const spyreStream_t on = stream_of(device, stream);
        waiting([&] {
          return spyreMemset(device, reinterpret_cast<void*>(address), value, bytes, on,
                             blocking ? SPYRE_BLOCKING : SPYRE_ASYNC);
        });
      },
      py::arg("device"), py::arg("stream"), py::arg("address"), py::arg("value"), py::arg("bytes"),
      py::arg("blocking"));
  module.def(
      "synchronize", [](int32_t device) { waiting([&] { return spyreDeviceSynchronize(device); }); },
      py::arg("device"));
  module.def(
      "synchronize_stream",
      [](int32_t device, uint32_t stream) {
        const spyreStream_t on = stream_of(device, stream);
        waiting([&] { return spyreStreamSynchronize(device, on); });
      },
      py::arg("device"), py::arg("stream"));
  module.def(
      "record_api",
      [](uint32_t cbid, uint64_t begin_ns, uint64_t end_ns, uint64_t data) {
        check(spyreRecordApi(cbid, begin_ns, end_ns, data));
      },
      py::arg("cbid"), py::arg("begin_ns"), py::arg("end_ns"), py::arg("data"));
}

}  // namespace

PYBIND11_MODULE(_emulator, module) {
  module.doc() = "The emulated Spyre below PyTorch. kineto_spyre.emulator is what programs use.";
  define_machine(module);
  define_model(module);
  define_memory(module);
  define_work(module);
  bind_power(module);
}
