// kineto_spyre._C: what Python may ask of the plugin. The contract is kineto_spyre/_C.pyi.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kineto/plugin.h"
#include "kineto/recorder.h"
#include "kineto/session.h"

namespace py = pybind11;
using kineto_spyre::kineto::Plugin;
using kineto_spyre::kineto::Recorder;
using kineto_spyre::kineto::Session;
using kineto_spyre::kineto::Settings;
using kineto_spyre::trace::Code;
using kineto_spyre::trace::JsonObject;

namespace {

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

// Whether this thread may wait for the GIL. A thread of Kineto's must not: it runs sessions that were asked for from
// outside, and holds Kineto's lock meanwhile, which a thread with the GIL waits for in each optimizer.step().
bool may_take_gil() { return !interpreter_is_ending() && PyGILState_GetThisThreadState() != nullptr; }

// A Python function that the C++ side calls in the middle of a profile. It lives until the process ends, because this
// module is never unloaded and its last reference must not be dropped without the GIL. Changed and read with the GIL
// only.
struct Callback {
  PyObject* function = nullptr;

  void set(const std::optional<py::function>& to) {
    Py_XDECREF(std::exchange(function, to ? to->inc_ref().ptr() : nullptr));
  }
};

// Warnings on their way to Python. Those of Kineto's threads wait here until the main thread looks for pending calls.
class Warnings {
 public:
  // With the GIL.
  void set_handler(const std::optional<py::function>& handler) { handler_.set(handler); }

  void tell(const std::string& diagnostics) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() >= kMostWaiting) return;  // the trace's metadata holds them, too
      waiting_.push_back(diagnostics);
    }
    if (may_take_gil()) {
      const py::gil_scoped_acquire gil;
      deliver();
    } else if (!interpreter_is_ending()) {
      // Needs no GIL. If CPython has no room for another call, those that wait go with the next one.
      Py_AddPendingCall(&Warnings::deliver_pending, this);
    }
  }

 private:
  static constexpr size_t kMostWaiting = 100;

  static int deliver_pending(void* self) {
    static_cast<Warnings*>(self)->deliver();
    return 0;  // the program that is interrupted here never sees an exception of ours
  }

  // With the GIL.
  void deliver() {
    std::vector<std::string> told;
    {
      const std::lock_guard lock(mutex_);
      told.swap(waiting_);
    }
    for (const std::string& diagnostics : told) {
      if (handler_.function == nullptr) return;
      PyObject* text = PyUnicode_DecodeUTF8(diagnostics.data(), static_cast<Py_ssize_t>(diagnostics.size()), "replace");
      PyObject* result = text != nullptr ? PyObject_CallOneArg(handler_.function, text) : nullptr;
      Py_XDECREF(text);
      if (result == nullptr) PyErr_WriteUnraisable(handler_.function);
      Py_XDECREF(result);
    }
  }

  Callback handler_;
  std::mutex mutex_;  // never held while Python runs
  std::vector<std::string> waiting_;
};

void set_warning_handler(const std::optional<py::function>& handler) {
  static auto* const warnings = new Warnings;  // pending calls may outlive static destruction
  warnings->set_handler(handler);
  if (handler) {
    Plugin::get().warnings.set_handler([](const std::string& diagnostics) { warnings->tell(diagnostics); });
  } else {
    Plugin::get().warnings.set_handler(nullptr);
  }
}

Settings settings_from(const py::dict& read) {
  Settings settings;
  settings.align_clocks = read["align_clocks"].cast<bool>();
  settings.flush_timeout_ms = read["flush_timeout_ms"].cast<int64_t>();
  settings.buffer_mib = read["buffer_mib"].cast<std::optional<double>>();
  settings.named_library = read["named_library"].cast<std::string>();
  settings.device_asked = read["device_asked"].cast<bool>();
  settings.flush_only_before_disable = read["flush_only_before_disable"].cast<std::vector<std::string>>();
  for (const py::handle& problem : read["problems"]) {
    JsonObject details;
    for (const auto& [key, value] : problem.cast<std::map<std::string, std::string>>()) details.text(key, value);
    settings.problems.add(Code::kSettingInvalid, 1, details);
  }
  return settings;
}

void set_settings_provider(const std::optional<py::function>& provider) {
  static Callback current;
  current.set(provider);
  if (!provider) {
    Plugin::get().settings.set_provider(nullptr);
    return;
  }
  Plugin::get().settings.set_provider([]() -> std::optional<Settings> {
    if (!may_take_gil()) return std::nullopt;
    const py::gil_scoped_acquire gil;
    if (current.function == nullptr) return std::nullopt;
    try {
      return settings_from(py::reinterpret_borrow<py::function>(current.function)());
    } catch (const py::error_already_set& error) {  // holds Python objects, which need the GIL
      throw std::runtime_error(error.what());
    }
  });
}

// At exit with a profile still running, PyTorch destroys what it needs in the wrong order and crashes (one of the CPU
// alone as well). Where a Spyre is in the profile, it is ended before that.
void end_running_profile() {
  if (!Plugin::get().history.is_recording()) return;
  try {
    py::module_::import("torch.autograd").attr("_disable_profiler")();
  } catch (py::error_already_set& error) {  // begun by another thread: PyTorch lets only that one end it
    error.discard_as_unraisable("kineto_spyre, ending a profile at exit");
  }
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "The plugin: what Python may ask of it.";
  m.def(
      "register", [](bool override) { return Plugin::get().registration.register_factory(override); },
      py::arg("override"));
  m.def("reach_kineto", &kineto_spyre::kineto::Registration::reach_kineto);
  m.def("factory", [] { return Plugin::get().registration.factory(); });
  m.def(
      "set_libraries",
      [](std::string runtime, std::vector<std::string> candidates) {
        return Plugin::get().library.choose(std::move(runtime), std::move(candidates));
      },
      py::arg("runtime"), py::arg("candidates"));
  m.def("set_warning_handler", &set_warning_handler, py::arg("handler"));
  m.def("set_settings_provider", &set_settings_provider, py::arg("provider"));
  m.def("read_settings", [] { Plugin::get().settings.read(); });
  m.def("is_recording", [] { return Plugin::get().history.is_recording(); });
  m.def(
      "set_recording", [](bool on) { Session::set_recording(on); }, py::arg("on"),
      py::call_guard<py::gil_scoped_release>());
  m.def("status_json", [] { return Plugin::get().status(); });
  py::module_::import("atexit").attr("register")(py::cpp_function(&end_running_profile));
  m.def(
      "recorder_start", [](double seconds, double mib) { return Recorder::get().start(seconds, mib); },
      py::arg("seconds"), py::arg("mib"), py::call_guard<py::gil_scoped_release>());
  m.def("recorder_stop", [] { Recorder::get().stop(); }, py::call_guard<py::gil_scoped_release>());
  m.def(
      "recorder_dump",
      [](std::string path, bool perfetto, double seconds, int64_t begin_ns, std::string reason) {
        return Recorder::get().dump({std::move(path), perfetto, seconds, begin_ns, std::move(reason)});
      },
      py::arg("path"), py::arg("perfetto"), py::arg("seconds"), py::arg("begin_ns"), py::arg("reason"),
      py::call_guard<py::gil_scoped_release>());
  m.def("recorder_status_json", [] { return Recorder::get().status(); }, py::call_guard<py::gil_scoped_release>());
  m.def("last_session_json", [] { return Plugin::get().history.last_session(); });
}
