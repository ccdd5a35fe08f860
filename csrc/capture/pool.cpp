#include "capture/pool.h"

namespace kineto_spyre::capture {
namespace {

constexpr size_t kProbe = size_t{64} << 10;       // how finely the helper looks where a borrower writes
constexpr size_t kLeastAhead = size_t{64} << 10;  // in one buffer

// Whether something was written to these 512 bytes, which are longer than any stretch of zeroes in records. Its
// borrower may be writing to them: either answer is right then. Without the thread sanitizer, which knows only of
// races.
__attribute__((no_sanitize("thread"))) bool is_written(const uint8_t* at, size_t bytes) noexcept {
  const auto* words = reinterpret_cast<const volatile uint64_t*>(at);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
    if (words[i] != 0) return true;
  }
  return false;
}
constexpr size_t kLook = 512;

}  // namespace

bool Pool::map(size_t budget_bytes, size_t buffer_bytes, std::string* error) {
  budget_ = granules(budget_bytes) * kGranule;
  buffer_bytes_ = std::min(budget_, granules(buffer_bytes) * kGranule);
  // Addresses cost nothing: more than the budget, since pieces may be out of reach for a moment (piece_for()).
  const size_t size = budget_ + std::max(buffer_bytes_, budget_ / 4);
  const size_t cells = granules(size);
  return records_.map_shared(size, error) && cells_.map_shared(cells * sizeof(Cell), error) &&
         index_.map_shared(cells * sizeof(Buffer), error);
}

size_t Pool::touch_lent(size_t begin, size_t size, Cell& piece, size_t ahead) noexcept {
  size_t ready =
      std::max<size_t>(piece.touched, std::min(size, records_.touched() - std::min(records_.touched(), begin)));
  const size_t before = piece.filled;
  size_t filled = before;
  while (filled + kProbe <= ready && is_written(records_.data() + begin + filled + kProbe - kLook, kLook))
    filled += kProbe;
  // Its borrower may go on as fast as since the last look, and the helper may wake late: four times as far.
  const size_t until = std::min(size, filled + std::max(ahead, 4 * (filled - before)));
  if (ready < until) {
    records_.touch(begin + ready, begin + until);
    cells_.touch_first((begin + until) / kGranule * sizeof(Cell));
    ready = until;
  }
  piece.filled = static_cast<uint32_t>(filled);
  piece.touched = static_cast<uint32_t>(ready);
  return ready - filled;
}

void Pool::touch_ahead(size_t bytes) noexcept {
  const size_t lent = lent_.load(std::memory_order_relaxed);
  const size_t ahead = std::max(kLeastAhead, bytes / std::max<size_t>(1, lent));
  size_t ready = 0;
  for_each([&](size_t begin, size_t end, Cell& piece) {
    // Acquire: partner is the release in lend(). It may come back this moment: then memory is touched for its rest.
    if (piece.state.load(std::memory_order_acquire) == kLent) ready += touch_lent(begin, end - begin, piece, ahead);
  });
  if (ready >= bytes) return;
  records_.touch_ahead(bytes - ready);
  cells_.touch_first(granules(records_.touched()) * sizeof(Cell));
}

void Pool::seal() noexcept {
  take_returned([this](uint32_t, const Buffer& buffer) { index()[sealed_++] = buffer; });
  size_t keep = 0;  // the end of what was kept so far
  for_each([&](size_t begin, size_t end, const Cell& piece) {
    const uint32_t state = piece.state.load(std::memory_order_relaxed);
    if (state == kFree) return;
    records_.forget(keep, begin);
    keep = state == kReturned ? begin + piece.valid : end;
  });
  records_.forget(keep, records_.size());
  for (SharedRegion* region : {&records_, &cells_, &index_}) region->keep_on_fork();
}

void Pool::drop_records() noexcept {
  size_t keep = 0;
  for_each([&](size_t begin, size_t end, const Cell& piece) {
    const uint32_t state = piece.state.load(std::memory_order_relaxed);
    if (state == kFree || state == kReturned) return;
    records_.forget(keep, begin);
    keep = end;
  });
  records_.forget(keep, records_.size());
}

void Pool::release(uint32_t index) noexcept {
  Cell& mine = cell(index);
  const size_t begin = size_t{index} * kGranule;
  records_.forget(begin, begin + mine.size.load(std::memory_order_relaxed));
  mine.state.store(kReturned, std::memory_order_relaxed);
}

size_t Pool::out() const noexcept {
  size_t out = 0;
  for_each([&](size_t, size_t, const Cell& piece) {
    // Acquire: partner is the release in claim(), and that in complete_late().
    const uint32_t state = piece.state.load(std::memory_order_acquire);
    out += state == kLent || state == kClaimed || state == kLate;
  });
  return out;
}

size_t Pool::not_returned() const noexcept {
  size_t found = 0;
  for_each([&](size_t begin, size_t, const Cell& piece) {
    const bool lent = piece.state.load(std::memory_order_acquire) == kLent;  // partner: the release in lend()
    found += lent && is_written(records_.data() + begin, sizeof(uint64_t));
  });
  return found;
}

}  // namespace kineto_spyre::capture
