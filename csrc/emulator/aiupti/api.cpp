// The emulated libaiupti: the six functions of the real one, over the emulated runtime.
//
// As the real one, it is opened when someone profiles. Enabling a kind installs it as the runtime's tracer
// (recording.h); with the last kind disabled the runtime runs untraced again. It is always built with this project's
// own header.
//
//   any thread that calls the runtime   writes its host calls and memory records into a chunk of its own
//   (record_writer.h) a device's runtime thread           writes the records of the device's work, likewise the
//   completion thread ("aiupti")    fills staged chunks into the one current buffer of the client and gives full
//                                       buffers back (completion_thread.h, filler.h, current_buffer.h)
//   a flush                             has the devices deliver what has ended, stages the half-full chunks of all
//                                       threads, and waits until the completion thread has filled everything and
//                                       completed the current buffer
//
// What the real library is known to do is the default: one current buffer, buffers back in the order in which they were
// lent. What nobody knows of it is a choice here, and its other answers are faults (spyre_emulator/faults.h): what is
// recorded and not delivered when its kind is disabled stays for the next flush; a flush works with no kind enabled; it
// requests no buffer ahead; a null buffer means that what is to go there is dropped and counted; the count starts again
// when it is read.
#include <unistd.h>

#include "process.h"
#include "recording.h"
#include "spyre_emulator/clock.h"
#include "spyre_emulator/faults.h"

using namespace kineto_spyre::emulator;

#define AIUPTI_EXPORT __attribute__((visibility("default")))

namespace {

constexpr int kKinds = 32;  // more than any header has; those without records here can be enabled and stay silent
constexpr size_t kChunksAhead = 32;

bool fails(FailingFunction function) {
  const Faults* faults = current_faults();
  return faults != nullptr && (faults->fail & function) != 0;
}

bool is_kind(AIUpti_ActivityKind kind) { return kind > AIUPTI_ACTIVITY_KIND_INVALID && kind < kKinds; }

bool written_by_devices(AIUpti_ActivityKind kind) {
  return kind == AIUPTI_ACTIVITY_KIND_CMPT || kind == AIUPTI_ACTIVITY_KIND_MEMSET ||
         kind == AIUPTI_ACTIVITY_KIND_MEMCPY || kind == AIUPTI_ACTIVITY_KIND_MEMCPY2;
}

}  // namespace

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(AIUpti_BuffersCallbackRequestFunc request,
                                                                 AIUpti_BuffersCallbackCompleteFunc complete) {
  if (fails(kFailRegister)) return AIUPTI_ERROR_UNKNOWN;
  if (request == nullptr || complete == nullptr) return AIUPTI_ERROR_INVALID_PARAMETER;
  Process& p = process();
  std::lock_guard lock(p.functions);
  p.client.set(request, complete);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind kind) {
  if (fails(kFailEnable)) return AIUPTI_ERROR_UNKNOWN;
  if (!is_kind(kind)) return AIUPTI_ERROR_INVALID_KIND;
  Process& p = process();
  std::lock_guard lock(p.functions);
  const uint32_t before = p.enabled.fetch_or(1u << kind, std::memory_order_relaxed);
  if (before == 0) {
    p.staging.touch_ahead(kChunksAhead);
    p.thread.start();
    spyreSetTracer(&kTracer);
  }
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind kind) {
  if (fails(kFailDisable)) return AIUPTI_ERROR_UNKNOWN;
  if (!is_kind(kind)) return AIUPTI_ERROR_INVALID_KIND;
  Process& p = process();
  const Faults* const faults = current_faults();
  const bool discard = faults != nullptr && faults->discard_at_disable && !Client::in_callback();
  {
    std::lock_guard lock(p.functions);
    // What ended while the kind was enabled is recorded; within a callback nothing can be waited for.
    if (written_by_devices(kind) && !Client::in_callback()) deliver_ended_work();
    const uint32_t before = p.enabled.fetch_and(~(1u << kind), std::memory_order_seq_cst);  // partner: Writers::lend()
    if (before == 1u << kind) spyreSetTracer(nullptr);
  }
  if (discard) {
    std::lock_guard one(p.flush);
    p.writers.collect();
    p.filler.discard(static_cast<uint8_t>(kind));
  }
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
  return process().iterator.next(buffer, valid, record);
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* dropped) {
  if (fails(kFailDropped)) return AIUPTI_ERROR_UNKNOWN;
  if (dropped == nullptr) return AIUPTI_ERROR_INVALID_PARAMETER;
  *dropped = process().dropped.exchange(0, std::memory_order_relaxed);
  return AIUPTI_SUCCESS;
}

AIUPTI_EXPORT AIUpti_ResultTypes aiuptiFlushAllActivities() {
  const Faults* faults = current_faults();
  if (faults != nullptr && faults->hang_flush_ns != 0) {
    const uint64_t end = host_now_ns() + faults->hang_flush_ns;
    while (current_faults() == faults && host_now_ns() < end) usleep(1000);
    faults = current_faults();
  }
  if (fails(kFailFlush)) return AIUPTI_ERROR_UNKNOWN;
  if (Client::in_callback()) return AIUPTI_SUCCESS;  // it would wait for the thread that it is on
  Process& p = process();
  if (faults != nullptr && p.enabled.load(std::memory_order_relaxed) == 0) {
    if (faults->flush_when_disabled == FlushWhenDisabled::kNothing) return AIUPTI_SUCCESS;
    if (faults->flush_when_disabled == FlushWhenDisabled::kFail) return AIUPTI_ERROR_UNKNOWN;
  }
  std::lock_guard one(p.flush);
  deliver_ended_work();
  p.writers.collect();
  p.thread.flush();
  return AIUPTI_SUCCESS;
}
