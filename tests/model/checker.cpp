// A model checker for small programs of atomics: runs a case again and again, once for each way in which its threads
// may interleave and each value that C++'s memory model lets a load return, up to a number of surprises.
//
// In: a case, an ordinary program with a main() that starts threads, compiled with -fsanitize=thread and linked to this
// file in place of ThreadSanitizer's runtime. So the headers under test are compiled as they are: the compiler calls
// us at every access to memory. Out: "no error in N executions" and exit code 0, or "Error: ..." with the last steps
// and exit code 1. An error is a failed assert(), a data race, or threads that wait for each other.
//
// A surprise is a switch to another thread where the running one could have gone on, or a load that returns another
// value than the newest. The budget (argument 1) bounds them: all executions with at most that many are tried, the
// threads' forced switches besides. Real defects need few: run.sh shows for each order that the code relies on that the
// checker objects when it is taken away.
//
// The model, an operational reading of C++20: every atomic has its stores in the order in which they were executed; a
// thread and a store each have a view: for each atomic, the oldest store that may still be read (coherence), and for
// each thread how far it is known (happens-before). An acquire takes over the view of the store that it reads, a
// release puts its own there; a read-modify-write reads the newest store and continues its view; a fence moves views
// between what a thread knows and what its relaxed operations carry; sequentially consistent operations also go through
// one common view. What is left out: stores and sequentially consistent operations that are ordered otherwise than they
// were executed (2+2W, say), spurious failures of compare_exchange_weak (a loop that repeats), and races between atomic
// and plain accesses.
//
// sched_yield() marks a loop that waits: the thread goes on when another one has stored something, and reads the
// newest.
#include <pthread.h>
#include <sched.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

int model_main();  // the case's main()

namespace {

constexpr int kThreads = 4, kPlaces = 48, kStack = 1 << 17, kMostSteps = 20000, kShownSteps = 60;

struct View {
  std::array<uint32_t, kThreads> clock{};  // steps of each thread that are known
  std::array<uint16_t, kPlaces> seen{};    // index of the oldest store of each atomic that may be read

  void join(const View& other) {
    for (int i = 0; i < kThreads; ++i) clock[i] = std::max(clock[i], other.clock[i]);
    join_seen(other);
  }
  void join_seen(const View& other) {
    for (int i = 0; i < kPlaces; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  }
};

struct Store {
  uint64_t value;
  View carried;
};

struct Place {
  int number;
  std::vector<Store> stores;  // in modification order; the first is what was there before
};

struct Thread {
  ucontext_t context;
  void* (*body)(void*);
  void* argument;
  View now;       // what happened before
  View acquired;  // what relaxed loads read: an acquire fence takes it over
  View released;  // what a release fence published: relaxed stores carry it
  enum { kReady, kYielded, kJoining, kDone } state = kReady;
  int joins = 0;
  uint64_t stores_at_load = 0;  // all stores there were at the last load
  bool stale = false;           // a load since the last yield returned an older value
};

// A plain word of 4 bytes: who wrote it last, and when each thread read it last.
struct Word {
  int writer = -1;
  uint32_t written = 0;
  std::array<uint32_t, kThreads> read{};
};

struct Choice {
  int taken, count;
};

struct Step {
  int thread;
  const char* what;
  int place;
  uint64_t value;
  int order;
};

// The search: over all executions.
std::vector<Choice> choices;
size_t next_choice;
int surprises_allowed, surprises_left;
uint64_t executions;

// One execution.
bool running;
std::array<Thread, kThreads> threads;
std::array<std::array<char, kStack>, kThreads> stacks;
int thread_count, current;
ucontext_t outside;
std::unordered_map<uintptr_t, Place> places;
std::unordered_map<uintptr_t, Word> words;
std::unordered_map<uintptr_t, uint32_t> before;  // contents of the words that were written to, put back at the end
View sequential;                                 // what sequentially consistent operations have in common
uint64_t all_stores;
std::vector<Step> steps;

[[noreturn]] void fail(const char* what) {
  const size_t first = steps.size() > kShownSteps ? steps.size() - kShownSteps : 0;
  static const char* orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  printf("Error: %s, in execution %llu. The last steps:\n", what, static_cast<unsigned long long>(executions));
  for (size_t i = first; i < steps.size(); ++i) {
    const Step& step = steps[i];
    printf("  thread %d  %-8s atomic %-3d %#llx  %s\n", step.thread, step.what, step.place,
           static_cast<unsigned long long>(step.value), orders[step.order]);
  }
  fflush(stdout);
  _Exit(1);
}

void remember(const char* what, int place, uint64_t value, int order) {
  steps.push_back({current, what, place, value, order});
  if (steps.size() > kMostSteps) fail("the threads run on without end");
}

// One of `count` ways to go on; the first is no surprise, nor is any if `forced`.
int choose(int count, bool forced) {
  if (count == 1 || (!forced && surprises_left == 0)) return 0;
  if (next_choice == choices.size()) choices.push_back({0, count});
  const int taken = choices[next_choice++].taken;
  if (taken != 0 && !forced) --surprises_left;
  return taken;
}

bool ready(const Thread& thread) {
  switch (thread.state) {
    case Thread::kReady:
      return true;
    case Thread::kYielded:
      return thread.stale || all_stores != thread.stores_at_load;
    case Thread::kJoining:
      return threads[thread.joins].state == Thread::kDone;
    default:
      return false;
  }
}

void switch_to(int thread) {
  const int from = current;
  current = thread;
  if (from != thread) swapcontext(&threads[from].context, &threads[thread].context);
}

// Before each step that others can see: who goes on?
void schedule() {
  std::array<int, kThreads> able;
  int count = 0;
  const bool can_go_on = ready(threads[current]);
  if (can_go_on) able[count++] = current;
  for (int i = 0; i < thread_count; ++i) {
    if (i != current && ready(threads[i])) able[count++] = i;
  }
  if (count == 0) fail("every thread waits for another one");
  switch_to(able[choose(count, threads[current].state != Thread::kReady)]);
}

bool on_a_stack(uintptr_t address) { return address - reinterpret_cast<uintptr_t>(stacks.data()) < sizeof(stacks); }

void save(uintptr_t address, size_t size) {
  if (on_a_stack(address)) return;
  for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
    before.try_emplace(word, *reinterpret_cast<uint32_t*>(word));
  }
}

void plain(const void* pointer, size_t size, bool writes) {
  if (!running) return;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (writes) save(address, size);
  View& now = threads[current].now;
  const uint32_t time = ++now.clock[current];
  for (uintptr_t at = address & ~uintptr_t{3}; at < address + size; at += 4) {
    Word& word = words[at];
    if (word.writer >= 0 && word.written > now.clock[word.writer]) fail("a data race with a write");
    if (!writes) {
      word.read[current] = time;
      continue;
    }
    for (int i = 0; i < thread_count; ++i) {
      if (word.read[i] > now.clock[i]) fail("a data race of a write with a read");
    }
    word.writer = current;
    word.written = time;
  }
}

bool acquires(int order) { return order == __ATOMIC_ACQUIRE || order >= __ATOMIC_ACQ_REL || order == __ATOMIC_CONSUME; }
bool releases(int order) { return order >= __ATOMIC_RELEASE; }

template <class T>
Place& place_of(const volatile T* pointer) {
  Place& place = places[reinterpret_cast<uintptr_t>(pointer)];
  if (place.stores.empty()) {
    place.number = static_cast<int>(places.size()) - 1;
    if (place.number == kPlaces) fail("the case has too many atomics (kPlaces)");
    place.stores.push_back({static_cast<uint64_t>(*pointer), {}});
  }
  return place;
}

uint64_t read(Place& place, size_t index, int order, const char* what) {
  Thread& me = threads[current];
  const Store& store = place.stores[index];
  ++me.now.clock[current];
  me.now.seen[place.number] = std::max(me.now.seen[place.number], static_cast<uint16_t>(index));
  (acquires(order) ? me.now : me.acquired).join(store.carried);
  if (order == __ATOMIC_SEQ_CST) {
    sequential.seen[place.number] = std::max(sequential.seen[place.number], static_cast<uint16_t>(index));
  }
  me.stale |= index + 1 != place.stores.size();
  me.stores_at_load = all_stores;
  remember(what, place.number, store.value, order);
  return store.value;
}

template <class T>
void write(volatile T* pointer, Place& place, T value, int order, bool continues, const char* what) {
  Thread& me = threads[current];
  save(reinterpret_cast<uintptr_t>(pointer), sizeof(T));
  ++me.now.clock[current];
  const auto index = static_cast<uint16_t>(place.stores.size());
  me.now.seen[place.number] = index;
  if (order == __ATOMIC_SEQ_CST) sequential.seen[place.number] = index;
  Store store{static_cast<uint64_t>(value), releases(order) ? me.now : me.released};
  if (continues) store.carried.join(place.stores.back().carried);
  place.stores.push_back(store);
  *pointer = value;
  ++all_stores;
  remember(what, place.number, static_cast<uint64_t>(value), order);
}

// The stores that a load may return, the newest first; with `expected`, those that a compare-and-swap may have seen.
template <class T>
size_t pick(Place& place, int order, const T* expected = nullptr) {
  size_t oldest = threads[current].now.seen[place.number];
  if (order == __ATOMIC_SEQ_CST) oldest = std::max<size_t>(oldest, sequential.seen[place.number]);
  const size_t newest = place.stores.size() - 1;
  std::vector<size_t> readable{newest};
  for (size_t i = newest; i-- > oldest;) {  // an older value that would make it succeed isn't there any more
    if (expected == nullptr || static_cast<T>(place.stores[i].value) != *expected) readable.push_back(i);
  }
  return readable[static_cast<size_t>(choose(static_cast<int>(readable.size()), false))];
}

template <class T>
T load(const volatile T* pointer, int order) {
  if (!running) return *pointer;
  schedule();
  Place& place = place_of(pointer);
  return static_cast<T>(read(place, pick<T>(place, order), order, "load"));
}

template <class T>
void store(volatile T* pointer, T value, int order) {
  if (!running) {
    *pointer = value;
    return;
  }
  schedule();
  write(pointer, place_of(pointer), value, order, false, "store");
}

template <class T, class Change>
T change(volatile T* pointer, int order, Change new_value) {
  if (!running) {
    const T old = *pointer;
    *pointer = new_value(old);
    return old;
  }
  schedule();
  Place& place = place_of(pointer);
  const T old = static_cast<T>(read(place, place.stores.size() - 1, order, "read"));
  write(pointer, place, static_cast<T>(new_value(old)), order, true, "modify");
  return old;
}

template <class T>
bool compare_exchange(volatile T* pointer, T* expected, T desired, int success, int failure) {
  if (!running) {
    const T old = *pointer;
    if (old == *expected) *pointer = desired;
    return std::exchange(*expected, old) == old;
  }
  schedule();
  Place& place = place_of(pointer);
  const size_t index = pick(place, failure, expected);
  if (static_cast<T>(place.stores[index].value) == *expected) {
    read(place, index, success, "read");
    write(pointer, place, desired, success, true, "swap");
    return true;
  }
  *expected = static_cast<T>(read(place, index, failure, "no swap"));
  return false;
}

void fence(int order) {
  if (!running) return;
  if (order == __ATOMIC_SEQ_CST) schedule();
  Thread& me = threads[current];
  if (acquires(order)) me.now.join(me.acquired);
  if (order == __ATOMIC_SEQ_CST) {
    me.now.join_seen(sequential);
    sequential.join_seen(me.now);
  }
  if (releases(order)) me.released = me.now;
}

void run_thread(int number) {
  Thread& me = threads[number];
  if (number == 0) {
    model_main();
    setcontext(&outside);
  }
  me.body(me.argument);
  me.state = Thread::kDone;
  ++all_stores;  // whoever waits for it may go on
  schedule();
}

int start_thread(void* (*body)(void*), void* argument) {
  if (thread_count == kThreads) fail("the case has too many threads (kThreads)");
  const int number = thread_count++;
  Thread& thread = threads[number];
  thread = Thread{};
  thread.body = body;
  thread.argument = argument;
  if (number != 0) thread.now = threads[current].now;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = stacks[number].data();
  thread.context.uc_stack.ss_size = kStack;
  makecontext(&thread.context, reinterpret_cast<void (*)()>(run_thread), 1, number);
  return number;
}

void execute() {
  next_choice = 0;
  surprises_left = surprises_allowed;
  thread_count = current = 0;
  places.clear();
  words.clear();
  before.clear();
  steps.clear();
  sequential = View{};
  all_stores = 0;
  start_thread(nullptr, nullptr);
  ++executions;
  running = true;
  swapcontext(&outside, &threads[0].context);
  running = false;
  for (const auto& [address, value] : before) *reinterpret_cast<uint32_t*>(address) = value;
}

// The next way through the choices, depth first. False: there was no other.
bool another() {
  choices.resize(next_choice);
  while (!choices.empty() && ++choices.back().taken == choices.back().count) choices.pop_back();
  return !choices.empty();
}

}  // namespace

// What the compiler calls, and what the cases call of the system.
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, size_t size) { plain(at, size, false); }
void __tsan_write_range(void* at, size_t size) { plain(at, size, true); }

#define PLAIN(size)                                                      \
  void __tsan_read##size(void* at) { plain(at, size, false); }           \
  void __tsan_write##size(void* at) { plain(at, size, true); }           \
  void __tsan_unaligned_read##size(void* at) { plain(at, size, false); } \
  void __tsan_unaligned_write##size(void* at) { plain(at, size, true); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define MODIFY(bits, name, expression)                                                              \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile void* at, uint##bits##_t value, int order) { \
    using T = uint##bits##_t;                                                                       \
    return change(static_cast<volatile T*>(at), order, [=](T old) -> T { return expression; });     \
  }
#define ATOMIC(bits)                                                                                             \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile void* at, int order) {                                \
    return load(static_cast<const volatile uint##bits##_t*>(at), order);                                         \
  }                                                                                                              \
  void __tsan_atomic##bits##_store(volatile void* at, uint##bits##_t value, int order) {                         \
    store(static_cast<volatile uint##bits##_t*>(at), value, order);                                              \
  }                                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile void* at, void* expected, uint##bits##_t desired,  \
                                                     int success, int failure) {                                 \
    using T = uint##bits##_t;                                                                                    \
    return compare_exchange(static_cast<volatile T*>(at), static_cast<T*>(expected), desired, success, failure); \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void* at, uint##bits##_t expected,          \
                                                            uint##bits##_t desired, int success, int failure) {  \
    __tsan_atomic##bits##_compare_exchange_strong(at, &expected, desired, success, failure);                     \
    return expected;                                                                                             \
  }                                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile void* at, void* expected, uint##bits##_t desired,    \
                                                   int success, int failure) {                                   \
    return __tsan_atomic##bits##_compare_exchange_strong(at, expected, desired, success, failure);               \
  }                                                                                                              \
  MODIFY(bits, exchange, (static_cast<void>(old), value))                                                        \
  MODIFY(bits, fetch_add, static_cast<T>(old + value))                                                           \
  MODIFY(bits, fetch_sub, static_cast<T>(old - value))                                                           \
  MODIFY(bits, fetch_and, static_cast<T>(old & value))                                                           \
  MODIFY(bits, fetch_or, static_cast<T>(old | value))                                                            \
  MODIFY(bits, fetch_xor, static_cast<T>(old ^ value))
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order) { fence(order); }
void __tsan_atomic_signal_fence(int) {}

int pthread_create(pthread_t* handle, const pthread_attr_t*, void* (*body)(void*), void* argument) noexcept {
  *handle = static_cast<pthread_t>(start_thread(body, argument));
  return 0;
}

int pthread_join(pthread_t handle, void**) {
  Thread& me = threads[current];
  me.joins = static_cast<int>(handle);
  me.state = Thread::kJoining;
  schedule();
  me.state = Thread::kReady;
  me.now.join(threads[me.joins].now);
  return 0;
}

int sched_yield() noexcept {
  Thread& me = threads[current];
  me.state = Thread::kYielded;
  schedule();
  me.state = Thread::kReady;
  me.stale = false;
  for (const auto& [address, place] : places) {  // sooner or later every store is seen
    me.now.seen[place.number] = static_cast<uint16_t>(place.stores.size() - 1);
  }
  return 0;
}

void __assert_fail(const char* expression, const char*, unsigned, const char*) noexcept {
  fail((std::string("assert(") + expression + ") failed").c_str());
}
}

int main(int count, char** arguments) {
  surprises_allowed = count > 1 ? atoi(arguments[1]) : 2;
  do execute();
  while (another());
  printf("no error in %llu executions\n", static_cast<unsigned long long>(executions));
  return 0;
}
