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
  m.def("last_session_json", [] { return Plugin::get().last_session(); });
}
