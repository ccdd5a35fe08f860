// kineto_spyre._C: what Python may ask of the plugin. The contract is kineto_spyre/_C.pyi.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "kineto/plugin.h"

namespace py = pybind11;
using kineto_spyre::kineto::Plugin;

namespace {

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

// Called by Kineto's thread in the middle of a profile. The handler is a Python object: it lives until the process
// ends, for this module is never unloaded and its last reference must not be dropped without the GIL.
void set_warning_handler(const std::optional<py::function>& handler) {
  static PyObject* current = nullptr;  // changed and read with the GIL only
  Py_XDECREF(std::exchange(current, handler ? handler->inc_ref().ptr() : nullptr));
  if (!handler) {
    Plugin::get().set_warning_handler(nullptr);
    return;
  }
  Plugin::get().set_warning_handler([](const std::string& sentence) {
    if (interpreter_is_ending()) return;  // taking the GIL would never return
    const py::gil_scoped_acquire gil;
    if (current == nullptr) return;
    PyObject* text = PyUnicode_DecodeUTF8(sentence.data(), static_cast<Py_ssize_t>(sentence.size()), "replace");
    PyObject* result = text != nullptr ? PyObject_CallOneArg(current, text) : nullptr;
    Py_XDECREF(text);
    if (result == nullptr) PyErr_WriteUnraisable(current);
    Py_XDECREF(result);
  });
}

// At exit with a profile still running, PyTorch destroys what it needs in the wrong order and crashes (one of the CPU
// alone as well). Where a Spyre is in the profile, it is ended before that.
void end_running_profile() {
  if (!Plugin::get().recording()) return;
  try {
    py::module_::import("torch.autograd").attr("_disable_profiler")();
  } catch (py::error_already_set& error) {  // begun by another thread: PyTorch lets only that one end it
    error.discard_as_unraisable("kineto_spyre, ending a profile at exit");
  }
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "The plugin: what Python may ask of it.";
  m.def("register", [](bool override) { return Plugin::get().register_factory(override); }, py::arg("override"));
  m.def("factory", [] { return Plugin::get().factory(); });
  m.def(
      "set_libraries",
      [](std::string runtime, std::vector<std::string> candidates) {
        Plugin::get().set_libraries(std::move(runtime), std::move(candidates));
      },
      py::arg("runtime"), py::arg("candidates"));
  m.def("set_warning_handler", &set_warning_handler, py::arg("handler"));
  m.def("status_json", [] { return Plugin::get().status(); });
  py::module_::import("atexit").attr("register")(py::cpp_function(&end_running_profile));
  m.def("last_session_json", [] { return Plugin::get().last_session(); });
}
