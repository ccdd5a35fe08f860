// Drives a libaiupti that nothing is known of, and keeps what it does: which buffers it asks for, when and on which
// thread it gives them back, what is in them.
//
// It judges nothing: kineto_spyre/selftest does. It is meant for a process of its own, which a library may hang or
// crash, and it is independent of csrc/capture, whose assumptions it tests.
//
// Buffers are plain heap memory, as the public clients' are, never null, and freed with the process: whatever the
// library does with a buffer later, the memory is there. Once kMaxBytes were lent, one more buffer is lent again and
// again
// (`scratch`), and what is in it counts for nothing.
//
// libaiupti's callbacks carry no context pointer: there is one probe a process. The callbacks may come on any thread,
// at any time; they take a lock for a few instructions and never call the library. Times: CLOCK_REALTIME, in ns.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kineto_spyre::selftest {

// One callback.
struct Event {
  enum class What : uint8_t { kRequested, kCompleted, kUnknown };  // kUnknown: given back, and not lent
  What what;
  int64_t ns;
  int32_t thread;   // gettid() of the callback's thread
  uint32_t during;  // the call of ours that was under way (Probe::call_number()); 0: none was
  int64_t buffer;   // its number, from 0; -1: the scratch buffer, or not ours
  uint64_t size, valid;
};

// One step of the record iterator.
struct Step {
  int code;
  int64_t offset;  // of the record in its buffer; -1: null; -2: outside
};

struct Outcome {
  int code = 0;
  int64_t ns = 0;       // how long the call took
  uint64_t value = 0;   // aiuptiActivityGetNumDroppedRecords: the count
  uint32_t number = 0;  // of the call, as Event::during has it
};

class Probe {
 public:
  static constexpr size_t kMaxBytes = size_t{512} << 20;

  static Probe& get();

  // Opens the file, RTLD_GLOBAL as the public clients do. names: symbol by the plain name of each function. Returns
  // which were found. Throws std::runtime_error if the loader refuses the file.
  std::map<std::string, bool> open(const std::string& path, const std::map<std::string, std::string>& names);

  // Buffers lent from now on; the first `short_ones` are told to hold `short_bytes` only (their memory is whole).
  void set_buffers(size_t bytes, size_t max_records, size_t short_ones, size_t short_bytes);

  // Throw std::runtime_error if the library lacks the function.
  Outcome register_callbacks();
  Outcome enable(int kind);
  Outcome disable(int kind);
  Outcome flush();
  Outcome dropped();
  // The iterator over what a completed buffer holds, until it returns anything but success, at most `limit` steps.
  std::vector<Step> iterate(int64_t buffer, size_t limit);
  Outcome next_of_nothing();  // the iterator over a buffer with 0 valid bytes

  // What the callbacks saw since `first` (the number of events that are known).
  std::vector<Event> events(size_t first) const;
  // The valid part of a completed buffer.
  std::string content(int64_t buffer) const;

 private:
  Probe() = default;

  static void on_requested(uint8_t** buffer, size_t* size, size_t* max_records);
  static void on_completed(uint8_t* buffer, size_t size, size_t valid);
  template <class Function, class... Arguments>
  Outcome call(const char* name, Function function, Arguments... arguments);
  std::pair<uint8_t*, size_t> valid_part(int64_t buffer) const;

  struct Lent {
    uint8_t* data;
    size_t size, valid;
    bool out;
  };

  decltype(&::aiuptiActivityRegisterCallbacks) register_ = nullptr;
  decltype(&::aiuptiActivityEnable) enable_ = nullptr;
  decltype(&::aiuptiActivityDisable) disable_ = nullptr;
  decltype(&::aiuptiActivityGetNextRecord) next_ = nullptr;
  decltype(&::aiuptiActivityGetNumDroppedRecords) dropped_ = nullptr;
  decltype(&::aiuptiFlushAllActivities) flush_ = nullptr;

  std::atomic<uint32_t> during_{0};  // relaxed: says which call an event belongs to, orders nothing
  uint32_t calls_ = 0;               // guarded by the GIL of the one thread that calls

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Event> events_;
  std::vector<Lent> buffers_;
  uint8_t* scratch_ = nullptr;
  size_t lent_bytes_ = 0;
  size_t bytes_ = size_t{1} << 20, max_records_ = 0, short_ones_ = 0, short_bytes_ = 0;
};

}  // namespace kineto_spyre::selftest
