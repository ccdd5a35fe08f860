#include "aiupti/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace kineto_spyre::aiupti {
namespace {

// Written once, in find_library (release); read with acquire: the Library behind it is whole.
std::atomic<const Library*> opened{nullptr};

// One thread opens at a time, the others wait for what it finds. Who it is, is written as its process: what a fork left
// behind in the child belongs to nobody there, where a mutex would stay locked for good.
class Turn {
 public:
  Turn() {
    const pid_t here = getpid();
    pid_t holder = 0;
    while (!process_.compare_exchange_weak(holder, here, std::memory_order_acquire)) {  // partner: ~Turn's release
      if (holder != here) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      holder = 0;
    }
  }
  ~Turn() { process_.store(0, std::memory_order_release); }  // partner: Turn()'s acquire
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static inline std::atomic<pid_t> process_{0};
};

// The real library has C++ linkage; one built with C linkage is taken as well.
template <class Function>
void look_up(void* handle, const char* mangled, const char* plain, Function*& function, std::string& missing) {
  void* symbol = dlsym(handle, mangled);
  if (symbol == nullptr) symbol = dlsym(handle, plain);
  function = reinterpret_cast<Function*>(symbol);
  if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(plain);
}

// The functions that are missing, by name.
std::string look_up_all(void* handle, Library& library) {
  std::string missing;
  look_up(handle, "_Z31aiuptiActivityRegisterCallbacksPFvPPhPmS1_EPFvS_mmE", "aiuptiActivityRegisterCallbacks",
          library.register_callbacks, missing);
  look_up(handle, "_Z20aiuptiActivityEnable19AIUpti_ActivityKind", "aiuptiActivityEnable", library.enable, missing);
  look_up(handle, "_Z21aiuptiActivityDisable19AIUpti_ActivityKind", "aiuptiActivityDisable", library.disable, missing);
  look_up(handle, "_Z27aiuptiActivityGetNextRecordPhmPP15AIUpti_Activity", "aiuptiActivityGetNextRecord",
          library.next_record, missing);
  look_up(handle, "_Z34aiuptiActivityGetNumDroppedRecordsPm", "aiuptiActivityGetNumDroppedRecords",
          library.dropped_records, missing);
  look_up(handle, "_Z24aiuptiFlushAllActivitiesv", "aiuptiFlushAllActivities", library.flush_all, missing);
  return missing;
}

std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr && *map->l_name != '\0') return map->l_name;
  return otherwise;
}

std::string from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

}  // namespace

std::vector<std::string> library_candidates() {
  std::vector<std::string> candidates;
  const std::string named = from_environment("KINETO_SPYRE_LIBAIUPTI");
  if (!named.empty()) candidates.push_back(named);
  candidates.push_back("libaiupti.so");
  for (const std::string& directory :
       {from_environment("LIBAIUPTI_INSTALL_DIR"), from_environment("RUNTIME_INSTALL_DIR"),
        std::string("/opt/ibm/spyre/runtime")}) {
    if (!directory.empty()) candidates.push_back(directory + "/lib/libaiupti.so");
  }
  return candidates;
}

namespace {

// Throws std::bad_alloc.
const Library* find_library(std::span<const std::string> candidates, std::string* error) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    tried += tried.empty() ? "" : "; ";
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      tried += candidate + " (" + (reason != nullptr ? reason : "not loadable") + ")";
      continue;
    }
    auto library = std::make_unique<Library>();
    library->path = path_of(handle, candidate);
    const std::string missing = look_up_all(handle, *library);
    if (!missing.empty()) {
      tried += library->path + " (lacks " + missing + ")";
      continue;
    }
    const std::string named = from_environment("KINETO_SPYRE_LIBAIUPTI");
    if (!named.empty() && candidates.front() == named && candidate != named) {
      library->notice = "KINETO_SPYRE_LIBAIUPTI names a library that can't be used, so " + library->path +
                        " was taken instead. Tried: " + tried + ".";
    }
    opened.store(library.get(), std::memory_order_release);  // partner: opened_library's acquire
    return library.release();
  }
  *error =
      candidates.empty()
          ? "No libaiupti was opened, for there was no path to try."
          : "No usable libaiupti was found, so device activity can't be recorded. Tried: " + tried +
                ". Set KINETO_SPYRE_LIBAIUPTI to the path of the libaiupti.so that belongs to the installed runtime.";
  return nullptr;
}

}  // namespace

const Library* open_library(std::span<const std::string> candidates, std::string* error) {
  if (const Library* library = opened_library()) return library;
  const Turn turn;
  if (const Library* library = opened_library()) return library;  // by who was before us
  try {
    return find_library(candidates, error);
  } catch (const std::bad_alloc&) {
    *error = "Out of memory.";  // short enough to need none
    return nullptr;
  }
}

const Library* opened_library() noexcept { return opened.load(std::memory_order_acquire); }

}  // namespace kineto_spyre::aiupti
