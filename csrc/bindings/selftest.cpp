// kineto_spyre._selftest: drives a libaiupti for `kineto-spyre selftest`. Every call of the library is made without the
// GIL: the library's threads never need it, and Python goes on while one hangs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "selftest/layout.h"
#include "selftest/probe.h"

namespace py = pybind11;
using kineto_spyre::selftest::Event;
using kineto_spyre::selftest::Outcome;
using kineto_spyre::selftest::Probe;
using kineto_spyre::selftest::Step;

namespace {

const char* word(Event::What what) {
  switch (what) {
    case Event::What::kRequested:
      return "requested";
    case Event::What::kCompleted:
      return "completed";
    case Event::What::kUnknown:
      break;
  }
  return "unknown";
}

py::list layouts() {
  py::list list;
  for (const auto& layout : kineto_spyre::selftest::layouts()) {
    py::dict fields;
    for (const auto& field : layout.fields) fields[py::str(field.name)] = py::make_tuple(field.offset, field.bytes);
    list.append(py::dict(py::arg("record") = layout.record, py::arg("kinds") = layout.kinds,
                         py::arg("bytes") = layout.bytes, py::arg("fields") = fields));
  }
  return list;
}

py::tuple outcome(const Outcome& o) { return py::make_tuple(o.code, o.ns, o.value, o.number); }

// Calls the library without the GIL.
template <class Function>
py::tuple without_gil(Function function) {
  Outcome result;
  {
    const py::gil_scoped_release released;
    result = function(Probe::get());
  }
  return outcome(result);
}

}  // namespace

PYBIND11_MODULE(_selftest, m) {
  m.doc() = "Drives a libaiupti for `kineto-spyre selftest`.";
  m.def("layouts", &layouts);
  m.def(
      "open",
      [](const std::string& path, const std::map<std::string, std::string>& names) {
        const py::gil_scoped_release released;
        return Probe::get().open(path, names);
      },
      py::arg("path"), py::arg("names"));
  m.def(
      "set_buffers",
      [](size_t bytes, size_t max_records, size_t short_ones, size_t short_bytes) {
        Probe::get().set_buffers(bytes, max_records, short_ones, short_bytes);
      },
      py::arg("bytes"), py::arg("max_records") = 0, py::arg("short_ones") = 0, py::arg("short_bytes") = 0);
  m.def("register", [] { return without_gil([](Probe& p) { return p.register_callbacks(); }); });
  m.def("enable", [](int kind) { return without_gil([=](Probe& p) { return p.enable(kind); }); }, py::arg("kind"));
  m.def("disable", [](int kind) { return without_gil([=](Probe& p) { return p.disable(kind); }); }, py::arg("kind"));
  m.def("flush", [] { return without_gil([](Probe& p) { return p.flush(); }); });
  m.def("dropped", [] { return without_gil([](Probe& p) { return p.dropped(); }); });
  m.def("next_of_nothing", [] { return without_gil([](Probe& p) { return p.next_of_nothing(); }); });
  m.def(
      "iterate",
      [](int64_t buffer, size_t limit) {
        std::vector<Step> steps;
        {
          const py::gil_scoped_release released;
          steps = Probe::get().iterate(buffer, limit);
        }
        py::list list;
        for (const Step& step : steps) list.append(py::make_tuple(step.code, step.offset));
        return list;
      },
      py::arg("buffer"), py::arg("limit"));
  m.def(
      "events",
      [](size_t first) {
        py::list list;
        for (const Event& e : Probe::get().events(first)) {
          list.append(py::make_tuple(word(e.what), e.ns, e.thread, e.during, e.buffer, e.size, e.valid));
        }
        return list;
      },
      py::arg("first"));
  m.def("content", [](int64_t buffer) { return py::bytes(Probe::get().content(buffer)); }, py::arg("buffer"));
}
