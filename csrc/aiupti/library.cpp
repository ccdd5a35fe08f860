#include "aiupti/library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "aiupti/layout.h"

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

bool same_file(const std::string& a, const std::string& b) {
  struct stat of_a{}, of_b{};
  return a == b || (stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
                    of_a.st_ino == of_b.st_ino);
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The files in this process that bear the name of a candidate, version numbers aside.
struct Mapped {
  std::span<const std::string> candidates;
  std::vector<std::string> paths;
};
int look_at_mapped(dl_phdr_info* object, size_t, void* data) {
  auto& mapped = *static_cast<Mapped*>(data);
  const std::string_view path = object->dlpi_name != nullptr ? object->dlpi_name : "";
  for (const std::string& candidate : mapped.candidates) {
    const std::string_view wanted = file_name(candidate);
    const std::string_view name = file_name(path);
    if (wanted.empty() || !name.starts_with(wanted)) continue;
    if (name.size() != wanted.size() && name[wanted.size()] != '.') continue;
    try {
      mapped.paths.emplace_back(path);
    } catch (const std::bad_alloc&) {  // must not pass the loader, which holds a lock here
      return 1;
    }
    break;
  }
  return 0;
}

// The library that the process has already, or "". Throws std::bad_alloc.
std::string mapped_library(std::span<const std::string> candidates) {
  Mapped mapped{candidates, {}};
  dl_iterate_phdr(look_at_mapped, &mapped);
  for (const std::string& path : mapped.paths) {
    if (same_file(path, candidates.front())) return path;
  }
  return mapped.paths.empty() ? "" : mapped.paths.front();
}

// Null, and what was wrong with it in *tried. Throws std::bad_alloc.
std::unique_ptr<Library> open_one(const std::string& path, std::string& tried) {
  const auto refuse = [&tried](const std::string& why) {
    tried += (tried.empty() ? "" : "; ") + why;
    return nullptr;
  };
  // As clients open it: what it brings is for all, as if the program had linked it.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return refuse(path + " (" + (reason != nullptr ? reason : "the loader gave no reason") + ")");
  }
  auto library = std::make_unique<Library>();
  library->path = path_of(handle, path);
  if (const std::string missing = look_up_all(handle, *library); !missing.empty()) {
    return refuse(library->path + " (lacks " + missing + ")");
  }
  // A function that only the emulated runtime has, which the emulated libaiupti is linked to.
  library->emulated = dlsym(handle, "spyreSetFaults") != nullptr;
  if (library->emulated && !has_own_layout()) {
    return refuse(
        library->path +
        " (it writes records as kineto-spyre's own header lays them out, and this kineto-spyre was built with "
        "an SDK's header that differs: build it without LIBAIUPTI_INSTALL_DIR to use the emulated Spyre)");
  }
  return library;
}

// Throws std::bad_alloc.
const Library* find_library(std::span<const std::string> candidates, std::string* tried) {
  tried->clear();
  if (candidates.empty()) {
    *tried = "no library was found to try";
    return nullptr;
  }
  std::unique_ptr<Library> library;
  const std::string& first = candidates.front();
  if (const std::string mapped = mapped_library(candidates); !mapped.empty()) {
    library = open_one(mapped, *tried);
    if (library && first.find('/') != std::string::npos && !same_file(mapped, first)) library->in_place_of = first;
  }
  for (size_t i = 0; !library && i < candidates.size(); ++i) library = open_one(candidates[i], *tried);
  opened.store(library.get(), std::memory_order_release);  // partner: opened_library's acquire
  return library.release();
}

}  // namespace

const Library* open_library(std::span<const std::string> candidates, std::string* tried) {
  if (const Library* library = opened_library()) return library;
  const Turn turn;
  if (const Library* library = opened_library()) return library;  // by who was before us
  try {
    return find_library(candidates, tried);
  } catch (const std::bad_alloc&) {
    *tried = "out of memory";  // short enough to need none
    return nullptr;
  }
}

uint64_t count_records(uint8_t* data, size_t valid) noexcept {
  const Library* library = opened_library();
  if (library == nullptr) return 0;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  uintptr_t least = begin;
  uint64_t records = 0;
  AIUpti_Activity* record = nullptr;
  // The library keeps its place in a buffer until it has said that there is no more, so it is asked until then.
  while (library->next_record(data, valid, &record) == AIUPTI_SUCCESS) {
    const auto at = reinterpret_cast<uintptr_t>(record);
    if (at < least || at >= begin + valid) break;
    least = at + 1;
    ++records;
  }
  return records;
}

const Library* opened_library() noexcept { return opened.load(std::memory_order_acquire); }

}  // namespace kineto_spyre::aiupti
