// The flight recorder: records and ops go round without a torch.profiler session, and a dump writes the last of them.
//
// In: start() and stop(), dump() from any thread. Out: a file, and a JSON object that says what is in it. One a
// process. A torch.profiler session may begin and end at any time meanwhile: it gets copies of the buffers (ring.h).
//
// A dump stops nobody: it flushes libaiupti on a thread of its own, copies what is kept, and makes a trace of the copy.
// The file gets its name when it is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "capture/ring.h"
#include "kineto/forkable_mutex.h"
#include "kineto/library_control.h"
#include "kineto/settings.h"
#include "trace/diagnostics.h"

namespace kineto_spyre::kineto {

class Recorder {
 public:
  static Recorder& get();

  // A JSON array of diagnostics; it runs afterwards if `running()`.
  std::string start(double seconds, double mib);
  void stop();
  bool running() const;

  struct Request {
    std::string path;
    bool perfetto = false;  // else JSON
    double seconds = 0;     // the last so many; 0: all that is kept
    int64_t begin_ns = 0;   // since the epoch: nothing before it
    std::string reason;
  };
  // A JSON object: "error" (a text), or slices, arrows, kernels, bytes, begin_ns, end_ns, complete, diagnostics.
  std::string dump(const Request& request);
  // A JSON object.
  std::string status() const;

 private:
  struct Making;
  std::string write(const Request& request, Making& making);

  mutable ForkableMutex mutex_;
  int process_ = 0;  // that started it
  double seconds_ = 0;
  Settings settings_;
  const aiupti::Library* library_ = nullptr;
  std::optional<LibraryControl> control_;
  uint64_t dumps_ = 0;
};

}  // namespace kineto_spyre::kineto
