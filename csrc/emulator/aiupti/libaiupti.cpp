// The emulated libaiupti: the six functions of the real one, over the emulated runtime.
//
// Compiled against whichever <libaiupti/aiupti_activity.h> the build found, so it names fields, assumes no layout, and
// leaves out what a release's records lack.
// As the real one, it is opened when someone profiles. Enabling a kind installs it as the runtime's tracer; with the
// last kind disabled the runtime runs untraced again.
//
// Who does what:
//   any thread that calls the runtime   writes its own host calls and memory records, into a buffer of its own
//   a device's runtime thread           writes the records of the device's work, likewise
//   the completion thread ("aiupti")    gives full buffers back: it looks each kLookNs while anything is enabled, so
//                                       that no writer ever wakes a thread
//   a flush                             has the devices deliver what has ended, takes the half-full buffers from their
//                                       writers (record_writer.h) and waits until the completion thread has given
//                                       everything back
//
// Callbacks may come on any of these threads: requests on the writing one, completions on the completion thread (and on
// the writing one if the completion thread is thousands of buffers behind).
//
// A record that finds no buffer is dropped and counted. aiuptiActivityGetNumDroppedRecords tells how many were since it
// was last asked.
//
// When all kinds are disabled and a flush has returned, no buffer is out and nothing writes any more, but for
// completions that a fault holds back.
//
// In the child of a fork nothing is enabled, no callbacks are registered, and there is no completion thread.
#include <libaiupti/aiupti_activity.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <vector>

#include "spyre_emulator/clock.h"
#include "spyre_emulator/faults.h"
#include "emulated_aiupti/record_writer.h"
#include "spyre_emulator/runtime.h"
#include "spyre_emulator/tracer.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kLookNs = 10'000'000;
constexpr uint8_t kUnknownKind = 42;
constexpr size_t kUnknownKindBytes = 64;
constexpr uint32_t kUnknownId = 9999;
constexpr uint8_t kTornByte = 0xDB;
constexpr uint32_t kContext = 1;
constexpr int kKinds = 32;  // more than any header has; those without records here can be enabled and stay silent

// ---------------------------------------------------------------------------------------------------------------------
// Full buffers on their way to the completion thread: a bounded queue of many writers and one reader (Vyukov's cells).
// A cell's turn tells whose it is: 2*lap for writers of that lap, 2*lap + 1 for the reader.

struct FullBuffer {
  uint8_t* data = nullptr;
  size_t size = 0, valid = 0;
  uint64_t full_ns = 0;
};

class FullBuffers {
 public:
  bool push(const FullBuffer& buffer) {
    uint64_t at = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[at % kCells];
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);  // partner: pop()'s release
      const uint64_t mine = 2 * (at / kCells);
      if (turn == mine) {
        if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          cell.buffer = buffer;
          cell.turn.store(mine + 1, std::memory_order_release);  // partner: pop()'s acquire
          return true;
        }
      } else if (turn < mine) {
        return false;  // full
      } else {
        at = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  // One reader.
  bool pop(FullBuffer* buffer) {
    Cell& cell = cells_[head_ % kCells];
    const uint64_t mine = 2 * (head_ / kCells) + 1;
    if (cell.turn.load(std::memory_order_acquire) != mine) return false;  // partner: push()'s release
    *buffer = cell.buffer;
    cell.turn.store(mine + 1, std::memory_order_release);  // partner: push()'s acquire
    ++head_;
    return true;
  }

 private:
  static constexpr uint64_t kCells = 4096;
  struct Cell {
    std::atomic<uint64_t> turn{0};
    FullBuffer buffer;
  };
  std::array<Cell, kCells> cells_{};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// State of the process.

struct State;
State& state();

bool lend(uint8_t** buffer, size_t* size, size_t* max_records);
void give_back(uint8_t* buffer, size_t size, size_t valid);

struct Writer {
  explicit Writer(bool asymmetric) : records({lend, give_back}, asymmetric) {}
  RecordWriter records;
  int64_t extra = 0;              // the owner's: by how much compute records in its buffer differ in size
  std::atomic<bool> taken{true};  // acquire when a thread takes it over, release when a thread ends
  Writer* next = nullptr;
};

struct State {
  // Release in aiuptiActivityRegisterCallbacks; acquire where they are called.
  std::atomic<AIUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<AIUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<uint32_t> enabled{0};       // bit = kind; relaxed: a record at the edge may fall on either side
  std::atomic<uint64_t> dropped{0};       // relaxed: a count
  std::atomic<Writer*> writers{nullptr};  // a list that only grows. Release: the loops' acquire
  std::atomic<bool> closed{false};        // the process ends: no more callbacks. Relaxed: `thread_mutex` orders it
  bool asymmetric = ProcessBarrier::available();
  FullBuffers full;

  std::mutex functions;     // enable, disable, register
  std::mutex flush;         // one flush at a time
  std::mutex thread_mutex;  // guards what follows
  std::condition_variable wake, done;
  uint64_t rounds_wanted = 0, rounds_done = 0;
  bool thread_started = false;

  // What the walker knows of buffers whose compute records are of another size than this build's.
  std::mutex odd_mutex;
  std::unordered_map<const uint8_t*, int64_t> odd_sizes;
  std::atomic<bool> any_odd{false};  // relaxed: set before the buffer is given back
};

// Never destroyed: threads of the runtime outlive the static objects. In a forked child it is made anew.
alignas(State) unsigned char g_state_storage[sizeof(State)];
std::atomic<State*> g_state{nullptr};  // release in make_state: state()'s acquire

// What a thread knows of itself. In the static TLS block, where reading it is one instruction; so it has no destructor,
// and the writer goes back through one that is made with it.
thread_local struct ThreadState {
  Writer* writer;
  uint32_t pid, tid;  // both would be system calls
} t_self __attribute__((tls_model("initial-exec")));

struct ThreadEnd {
  ~ThreadEnd() {
    if (t_self.writer == nullptr) return;
    t_self.writer->taken.store(false, std::memory_order_release);  // partner: my_writer()'s acquire
    t_self.writer = nullptr;
  }
};

void know_myself() {
  if (t_self.tid != 0) [[likely]]
    return;
  t_self.pid = static_cast<uint32_t>(getpid());
  t_self.tid = static_cast<uint32_t>(syscall(SYS_gettid));
}

void in_forked_child() {
  t_self.writer = nullptr;  // with the parent's buffer: it is the parent's
  t_self.tid = 0;
  if (g_state.load(std::memory_order_relaxed) != nullptr) g_state.store(new (g_state_storage) State);
}

void close_at_exit() {
  State& s = state();
  std::lock_guard lock(s.thread_mutex);  // no completion is under way on the completion thread beyond this
  s.closed.store(true, std::memory_order_relaxed);
}

State& state() {
  State* s = g_state.load(std::memory_order_acquire);
  if (s != nullptr) [[likely]]
    return *s;
  static State* const made = [] {
    pthread_atfork(nullptr, nullptr, in_forked_child);
    auto* fresh = new (g_state_storage) State;
    g_state.store(fresh, std::memory_order_release);
    std::atexit(close_at_exit);
    return fresh;
  }();
  return *made;
}

Writer* my_writer() {
  if (t_self.writer != nullptr) [[likely]]
    return t_self.writer;
  thread_local ThreadEnd end [[maybe_unused]];
  State& s = state();
  for (Writer* writer = s.writers.load(std::memory_order_acquire); writer != nullptr; writer = writer->next) {
    bool free = false;
    if (!writer->taken.load(std::memory_order_relaxed) &&
        writer->taken.compare_exchange_strong(free, true, std::memory_order_acquire)) {  // partner: ~ThreadWriter
      return t_self.writer = writer;
    }
  }
  auto* writer = new (std::nothrow) Writer(s.asymmetric);
  if (writer == nullptr) return nullptr;
  writer->next = s.writers.load(std::memory_order_relaxed);
  while (!s.writers.compare_exchange_weak(writer->next, writer, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return t_self.writer = writer;
}

bool enabled(AIUpti_ActivityKind kind) { return (state().enabled.load(std::memory_order_relaxed) >> kind & 1) != 0; }

bool written_by_devices(AIUpti_ActivityKind kind) {
  return kind == AIUPTI_ACTIVITY_KIND_CMPT || kind == AIUPTI_ACTIVITY_KIND_MEMSET ||
         kind == AIUPTI_ACTIVITY_KIND_MEMCPY || kind == AIUPTI_ACTIVITY_KIND_MEMCPY2;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes. A walker steps by them, so they are multiples of what records must be aligned to.

size_t size_of(uint8_t kind, int64_t extra) {
  switch (kind) {
    case AIUPTI_ACTIVITY_KIND_CMPT:
      return static_cast<size_t>(static_cast<int64_t>(sizeof(AIUpti_ActivityCompute)) + extra);
    case AIUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(AIUpti_ActivityMemset);
    case AIUPTI_ACTIVITY_KIND_MEMORY:
      return sizeof(AIUpti_ActivityMemory);
    case AIUPTI_ACTIVITY_KIND_MEMCPY:
    case AIUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(AIUpti_ActivityMemcpy);
    case AIUPTI_ACTIVITY_KIND_RUNTIME:
    case AIUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(AIUpti_ActivityAPI);
    case kUnknownKind:
      return kUnknownKindBytes;
    default:
      return 0;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Buffers.

bool lend(uint8_t** buffer, size_t* size, size_t* max_records) {
  State& s = state();
  // All kinds disabled and a flush done, no buffer is out. Partner: aiuptiActivityDisable, before that flush.
  if (s.enabled.load(std::memory_order_seq_cst) == 0 || s.closed.load(std::memory_order_relaxed)) return false;
  Faults* faults = current_faults();
  if (faults != nullptr && faults->no_buffers.used_up()) return false;
  const auto request = s.request.load(std::memory_order_acquire);  // partner: aiuptiActivityRegisterCallbacks
  if (request == nullptr) return false;
  request(buffer, size, max_records);
  if (*buffer == nullptr || *size == 0) return false;
  if (const int64_t extra = t_self.writer->extra; extra != 0) {
    std::lock_guard lock(s.odd_mutex);
    s.odd_sizes[*buffer] = extra;
    s.any_odd.store(true, std::memory_order_relaxed);
  } else if (s.any_odd.load(std::memory_order_relaxed)) {
    std::lock_guard lock(s.odd_mutex);
    s.odd_sizes.erase(*buffer);
  }
  return true;
}

void complete(const FullBuffer& full) {
  State& s = state();
  const auto callback = s.complete.load(std::memory_order_acquire);  // partner: aiuptiActivityRegisterCallbacks
  if (callback == nullptr || s.closed.load(std::memory_order_relaxed)) return;
  size_t valid = full.valid;
  bool twice = false;
  if (Faults* faults = current_faults(); faults != nullptr) [[unlikely]] {
    if (faults->truncate.hit() && valid > 24) valid -= 24;
    twice = faults->complete_twice.hit();
    if (faults->strange_thread) {
      std::thread([&] { callback(full.data, full.size, valid); }).join();
      if (twice) callback(full.data, full.size, valid);
      return;
    }
  }
  callback(full.data, full.size, valid);
  if (twice) callback(full.data, full.size, valid);
}

void give_back(uint8_t* buffer, size_t size, size_t valid) {
  const FullBuffer full{buffer, size, valid, host_now_ns()};
  if (!state().full.push(full)) complete(full);
}

// Gives back what is full. What the faults hold back stays in *held.
void complete_full(State& s, std::vector<FullBuffer>* held, bool flushing) {
  FullBuffer full;
  while (s.full.pop(&full)) held->push_back(full);
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->swap_buffers) {
    if (!flushing) return;
    std::reverse(held->begin(), held->end());
  }
  const uint64_t late = faults == nullptr ? 0 : faults->complete_late_ns;
  const uint64_t now = late == 0 ? 0 : host_now_ns();
  size_t kept = 0;
  for (const FullBuffer& buffer : *held) {
    if (late != 0 && now < buffer.full_ns + late) {
      (*held)[kept++] = buffer;
    } else {
      complete(buffer);
    }
  }
  held->resize(kept);
}

void completion_loop(State& s) {
  std::vector<FullBuffer> held;
  held.reserve(64);
  std::unique_lock lock(s.thread_mutex);
  while (true) {
    const uint64_t serving = s.rounds_wanted;
    complete_full(s, &held, s.rounds_done != serving);
    if (s.rounds_done != serving) {
      s.rounds_done = serving;
      s.done.notify_all();
    }
    if (s.rounds_wanted != serving) continue;
    if (s.enabled.load(std::memory_order_relaxed) != 0 || !held.empty()) {
      s.wake.wait_until(lock, host_time_point(host_now_ns() + kLookNs));
    } else {
      s.wake.wait(lock);
    }
  }
}

void start_completion_thread(State& s) {
  std::lock_guard lock(s.thread_mutex);
  s.wake.notify_all();
  if (s.thread_started) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([&s] { completion_loop(s); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "aiupti");
  thread.detach();
  s.thread_started = true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Records.

// What a release's records may lack is set where they have it.
template <typename Record>
void set_thread(Record* record, uint32_t tid) {
  if constexpr (requires { record->thread_id; }) record->thread_id = tid;
}

template <typename Fill>
void write(size_t bytes, Fill&& fill) {
  Writer* writer = my_writer();
  if (writer != nullptr && writer->records.write(bytes, fill)) [[likely]]
    return;
  State& s = state();
  // What comes when all is disabled is not lost: nobody asked for it.
  if (s.enabled.load(std::memory_order_relaxed) != 0) s.dropped.fetch_add(1, std::memory_order_relaxed);
}

void on_host_call(const HostCall& call) {
  if (!enabled(AIUPTI_ACTIVITY_KIND_RUNTIME)) return;
  uint32_t cbid = call.cbid;
  if (Faults* faults = current_faults(); faults != nullptr && faults->unknown_id.hit()) cbid = kUnknownId;
  know_myself();
  write(sizeof(AIUpti_ActivityAPI), [&](void* place) {
    auto* record = new (place) AIUpti_ActivityAPI{};
    record->kind = AIUPTI_ACTIVITY_KIND_RUNTIME;
    record->cbid = static_cast<decltype(record->cbid)>(cbid);
    record->process_id = t_self.pid;
    set_thread(record, t_self.tid);
    record->correlation_id = call.correlation;
    record->start = call.begin_ns;
    record->end = call.end_ns;
    record->data = call.data;
  });
}

void on_memory(const MemoryEvent& event) {
  if (!enabled(AIUPTI_ACTIVITY_KIND_MEMORY)) return;
  know_myself();
  write(sizeof(AIUpti_ActivityMemory), [&](void* place) {
    auto* record = new (place) AIUpti_ActivityMemory{};
    record->kind = AIUPTI_ACTIVITY_KIND_MEMORY;
    record->memory_operation_type = event.release ? AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                                                  : AIUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    record->device_id = event.device;
    record->process_id = t_self.pid;
    record->stream_id = event.stream;
    record->correlation_id = event.correlation;
    record->address = event.address;
    record->bytes = event.bytes;
    record->start = event.clock.at(event.begin_ns);
    record->end = event.clock.at(event.end_ns);
  });
}

// One piece of device work: where it is in time, in true time and in cycles.
struct Piece {
  uint64_t start_ns, end_ns, cycles;
};

template <typename Record>
void set_cycles(Record* record, const std::array<uint64_t, 5>& stamps) {
  if constexpr (requires { record->cycles_ts1; }) {
    record->cycles_ts1 = stamps[0];
    record->cycles_ts2 = stamps[1];
    record->cycles_ts3 = stamps[2];
    record->cycles_ts4 = stamps[3];
    record->cycles_ts5 = stamps[4];
  }
}

uint64_t in_cycles(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) * (model::kCycleStampHz / 1e9));
}

template <typename Record>
void set_common(Record* record, AIUpti_ActivityKind kind, const DeviceWork& work, const Piece& piece) {
  record->kind = static_cast<decltype(record->kind)>(kind);
  record->device_id = work.device;
  if constexpr (requires { record->context_id; }) record->context_id = kContext;
  record->stream_id = work.stream;
  record->correlation_id = work.correlation;
  record->start = work.clock.at(piece.start_ns);
  record->end = work.clock.at(piece.end_ns);
}

uint64_t submitted_ns(const DeviceWork& work, const Piece& piece) {
  return std::max(work.queued_ns, piece.start_ns - model::kDispatchNs);
}

template <typename Record>
void fill_compute(Record* record, const DeviceWork& work, const Piece& piece) {
  set_common(record, AIUPTI_ACTIVITY_KIND_CMPT, work, piece);
  record->operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE;
  if constexpr (requires { record->queued; }) record->queued = work.queued_ns;  // both are the host's doing: its clock
  if constexpr (requires { record->submitted; }) record->submitted = submitted_ns(work, piece);
  if constexpr (requires { record->local_memory_total; }) record->local_memory_total = work.scratchpad_bytes;
  std::memcpy(record->name, work.name, std::strlen(work.name) + 1);  // at most 127 characters
  const model::Phases& p = work.phases;
  set_cycles(record, {piece.cycles, piece.cycles + in_cycles(p.in), piece.cycles + in_cycles(p.in + p.prepare),
                      piece.cycles + in_cycles(p.in + p.prepare + p.execute), piece.cycles + in_cycles(p.total())});
}

AIUpti_ActivityMemcpyKind copy_kind_of(spyreMemcpyKind_t kind) {
  switch (kind) {
    case SPYRE_MEMCPY_HTOD:
      return AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case SPYRE_MEMCPY_DTOH:
      return AIUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case SPYRE_MEMCPY_PTOP:
      break;
  }
  return AIUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
}

void fill_memcpy(AIUpti_ActivityMemcpy* record, AIUpti_ActivityKind kind, const DeviceWork& work, const Piece& piece) {
  set_common(record, kind, work, piece);
  record->copy_kind = copy_kind_of(work.copy_kind);
  record->bytes = static_cast<decltype(record->bytes)>(work.bytes);
  // Into the device is its DMA's way in, TS1 to TS2; everything else is the way out, TS4 to TS5.
  const uint64_t end = piece.cycles + in_cycles(piece.end_ns - piece.start_ns);
  const uint64_t middle = work.copy_kind == SPYRE_MEMCPY_HTOD ? end : piece.cycles;
  set_cycles(record, {piece.cycles, middle, middle, middle, end});
}

void fill_memset(AIUpti_ActivityMemset* record, const DeviceWork& work, const Piece& piece) {
  set_common(record, AIUPTI_ACTIVITY_KIND_MEMSET, work, piece);
  record->bytes = static_cast<decltype(record->bytes)>(work.bytes);
}

// The record as it is written when something is to be wrong with it.
void write_faulty(const DeviceWork& work, AIUpti_ActivityKind kind, size_t natural, const Piece& piece,
                  Faults& faults) {
  alignas(8) uint8_t record[sizeof(AIUpti_ActivityCompute) + 1024]{};
  size_t bytes = natural;
  const auto with_times = [&](auto* typed) {
    if (faults.zero_start.hit()) typed->start = 0;
    if (faults.backwards.hit()) std::swap(typed->start, typed->end);
  };
  switch (work.kind) {
    case WorkKind::kKernel: {
      auto* compute = new (record) AIUpti_ActivityCompute{};
      fill_compute(compute, work, piece);
      if (faults.bad_name.hit()) std::memcpy(compute->name, "bad_\xff\xfe\xc3\x28_name", 14);
      if (faults.unterminated.hit()) {
        for (size_t i = std::strlen(compute->name); i < sizeof(compute->name); ++i) compute->name[i] = 'x';
      }
      with_times(compute);
      bytes = size_of(static_cast<uint8_t>(kind), faults.size);
      if (bytes > natural) std::memset(record + natural, 0x5A, bytes - natural);
      break;
    }
    case WorkKind::kCopy: {
      auto* copy = new (record) AIUpti_ActivityMemcpy{};
      fill_memcpy(copy, kind, work, piece);
      with_times(copy);
      break;
    }
    case WorkKind::kFill: {
      auto* fill = new (record) AIUpti_ActivityMemset{};
      fill_memset(fill, work, piece);
      with_times(fill);
      break;
    }
  }
  if (faults.drop.hit()) {
    state().dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (faults.torn.hit()) std::memset(record + bytes / 2, kTornByte, bytes - bytes / 2);
  const auto copy = [&](void* place) { std::memcpy(place, record, bytes); };
  write(bytes, copy);
  if (faults.duplicate.hit()) write(bytes, copy);
  if (faults.unknown_kind.hit()) {
    write(kUnknownKindBytes, [](void* place) {
      std::memset(place, 0, kUnknownKindBytes);
      *static_cast<uint8_t*>(place) = kUnknownKind;
    });
  }
}

void write_prepare(const DeviceWork& work, const Piece& piece) {
  write(sizeof(AIUpti_ActivityCompute), [&](void* place) {
    auto* record = new (place) AIUpti_ActivityCompute{};
    fill_compute(record, work, piece);
    record->operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_PREPARE;
    record->start = work.clock.at(submitted_ns(work, piece));
    record->end = work.clock.at(piece.start_ns);
  });
}

void on_device_work(const DeviceWork& work) {
  AIUpti_ActivityKind kind = AIUPTI_ACTIVITY_KIND_CMPT;
  if (work.kind == WorkKind::kFill) kind = AIUPTI_ACTIVITY_KIND_MEMSET;
  if (work.kind == WorkKind::kCopy) {
    kind = work.copy_kind == SPYRE_MEMCPY_PTOP ? AIUPTI_ACTIVITY_KIND_MEMCPY2 : AIUPTI_ACTIVITY_KIND_MEMCPY;
  }
  if (!enabled(kind)) return;
  Faults* faults = current_faults();
  const size_t bytes = size_of(static_cast<uint8_t>(kind), 0);
  const int64_t extra = faults == nullptr ? 0 : faults->size;
  if (Writer* writer = my_writer(); writer != nullptr && writer->extra != extra) [[unlikely]] {
    writer->records.close();  // all compute records in a buffer have one size
    writer->extra = extra;
  }
  for (uint64_t i = 0; i < work.count; ++i) {
    const uint64_t at = work.reversed ? work.count - 1 - i : i;
    const uint64_t start = work.start_ns + at * work.period_ns;
    const Piece piece{start, start + work.duration_ns, work.cycles + at * work.cycle_period};
    if (faults != nullptr) [[unlikely]] {
      if (faults->prepare && work.kind == WorkKind::kKernel && faults->size == 0) write_prepare(work, piece);
      write_faulty(work, kind, bytes, piece, *faults);
      continue;
    }
    write(bytes, [&](void* place) {
      switch (work.kind) {
        case WorkKind::kKernel:
          fill_compute(new (place) AIUpti_ActivityCompute{}, work, piece);
          break;
        case WorkKind::kCopy:
          fill_memcpy(new (place) AIUpti_ActivityMemcpy{}, kind, work, piece);
          break;
        case WorkKind::kFill:
          fill_memset(new (place) AIUpti_ActivityMemset{}, work, piece);
          break;
      }
    });
  }
}

constexpr spyreTracer kTracer{on_host_call, on_memory, on_device_work};

// ---------------------------------------------------------------------------------------------------------------------
// The walk. Where it is in a buffer is kept for the process, by buffer, until it comes to its end. A thread that walks
// remembers the place that it used last, so that the table is asked once a buffer.

struct Place {
  std::atomic<const uint8_t*> buffer;  // null: free. Release when given out, acquire when remembered
  size_t offset = 0;
  int64_t extra = 0;
};

thread_local Place* t_place __attribute__((tls_model("initial-exec"))) = nullptr;

class Walks {
 public:
  Place* find_or_begin(const uint8_t* buffer) {
    std::lock_guard lock(mutex_);
    for (const auto& place : places_) {
      if (place->buffer.load(std::memory_order_relaxed) == buffer) return place.get();
    }
    Place* place = nullptr;
    for (const auto& candidate : places_) {
      if (candidate->buffer.load(std::memory_order_relaxed) == nullptr) place = candidate.get();
    }
    if (place == nullptr) place = places_.emplace_back(std::make_unique<Place>()).get();
    place->offset = 0;
    State& s = state();
    std::lock_guard odd(s.odd_mutex);
    const auto found = s.odd_sizes.find(buffer);
    place->extra = found == s.odd_sizes.end() ? 0 : found->second;
    place->buffer.store(buffer, std::memory_order_release);
    return place;
  }
  void end(Place* place) { place->buffer.store(nullptr, std::memory_order_release); }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> places_;  // as many as walks were ever open at once
};

Walks& walks() {
  static auto* const instance = new Walks;  // never destroyed, as the state
  return *instance;
}

bool failing(FailingFunction function) {
  const Faults* faults = current_faults();
  return faults != nullptr && (faults->fail & function) != 0;
}

}  // namespace
}  // namespace kineto_spyre::emulator

using namespace kineto_spyre::emulator;

#define AIUPTI_EXPORT __attribute__((visibility("default")))

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(AIUpti_BuffersCallbackRequestFunc request,
                                                                 AIUpti_BuffersCallbackCompleteFunc complete) {
  if (failing(kFailRegister)) return AIUPTI_ERROR_UNKNOWN;
  if (request == nullptr || complete == nullptr) return AIUPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  std::lock_guard lock(s.functions);
  s.request.store(request, std::memory_order_release);
  s.complete.store(complete, std::memory_order_release);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind kind) {
  if (failing(kFailEnable)) return AIUPTI_ERROR_UNKNOWN;
  if (kind == AIUPTI_ACTIVITY_KIND_INVALID || kind >= kKinds) return AIUPTI_ERROR_INVALID_KIND;
  State& s = state();
  std::lock_guard lock(s.functions);
  const uint32_t before = s.enabled.fetch_or(1u << kind, std::memory_order_relaxed);
  if (before == 0) {
    start_completion_thread(s);
    spyreSetTracer(&kTracer);
  }
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind kind) {
  if (failing(kFailDisable)) return AIUPTI_ERROR_UNKNOWN;
  if (kind == AIUPTI_ACTIVITY_KIND_INVALID || kind >= kKinds) return AIUPTI_ERROR_INVALID_KIND;
  State& s = state();
  std::lock_guard lock(s.functions);
  if (written_by_devices(kind)) deliver_ended_work();  // what ended while the kind was enabled
  const uint32_t before = s.enabled.fetch_and(~(1u << kind), std::memory_order_seq_cst);  // partner: lend()
  if (before == 1u << kind) spyreSetTracer(nullptr);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
  if (Faults* faults = current_faults(); faults != nullptr) [[unlikely]] {
    if ((faults->fail & kFailNext) != 0) return AIUPTI_ERROR_UNKNOWN;
    if (record != nullptr && faults->null_record.hit()) {
      *record = nullptr;
      return AIUPTI_SUCCESS;
    }
  }
  if (buffer == nullptr || record == nullptr) return AIUPTI_ERROR_INVALID_PARAMETER;
  Place* place = t_place;
  if (place == nullptr || place->buffer.load(std::memory_order_acquire) != buffer) [[unlikely]] {
    place = t_place = walks().find_or_begin(buffer);
  }
  if (place->offset >= valid) {
    walks().end(place);
    *record = nullptr;
    return AIUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  uint8_t* const at = buffer + place->offset;
  const size_t bytes = size_of(*at, place->extra);
  if (bytes == 0) {
    // Nobody knows where the next one begins. The walk has one more step to its end.
    place->offset = valid;
    *record = nullptr;
    return AIUPTI_ERROR_INVALID_KIND;
  }
  place->offset += bytes;
  *record = reinterpret_cast<AIUpti_Activity*>(at);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* dropped) {
  if (failing(kFailDropped)) return AIUPTI_ERROR_UNKNOWN;
  if (dropped == nullptr) return AIUPTI_ERROR_INVALID_PARAMETER;
  *dropped = state().dropped.exchange(0, std::memory_order_relaxed);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiFlushAllActivities() {
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->hang_flush_ns != 0) {
    const uint64_t end = host_now_ns() + faults->hang_flush_ns;
    while (current_faults() == faults && host_now_ns() < end) usleep(1000);
  }
  if (failing(kFailFlush)) return AIUPTI_ERROR_UNKNOWN;
  State& s = state();
  std::lock_guard one(s.flush);
  deliver_ended_work();
  for (Writer* writer = s.writers.load(std::memory_order_acquire); writer != nullptr; writer = writer->next) {
    writer->records.hide();
  }
  if (s.asymmetric) ProcessBarrier::barrier();
  for (Writer* writer = s.writers.load(std::memory_order_acquire); writer != nullptr; writer = writer->next) {
    writer->records.take();
  }
  std::unique_lock lock(s.thread_mutex);
  if (!s.thread_started) return AIUPTI_SUCCESS;  // nothing was ever enabled
  const uint64_t wanted = ++s.rounds_wanted;
  s.wake.notify_all();
  s.done.wait(lock, [&] { return s.rounds_done >= wanted; });
  return AIUPTI_SUCCESS;
}
