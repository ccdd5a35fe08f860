#include "capture/pool.h"

#include <algorithm>

namespace kineto_spyre::capture {

bool Pool::map(size_t budget_bytes, size_t buffer_bytes, std::string* error) {
  buffer_bytes_ = buffer_bytes;
  const size_t stride = granules(buffer_bytes) * kGranule;
  const size_t buffers = std::max<size_t>(1, budget_bytes / stride);
  const size_t cells = granules(buffers * stride);
  return records_.map(buffers * stride, stride, error) && cells_.map(cells * sizeof(Cell), sizeof(Cell), error) &&
         index_.map(cells * sizeof(Buffer), sizeof(Buffer), error);
}

void Pool::touch_ahead(size_t bytes) noexcept {
  records_.touch_ahead(bytes);
  cells_.touch_first(granules(records_.touched()) * sizeof(Cell));
}

template <class Visitor>
void Pool::for_each(Visitor visit) const noexcept {
  const size_t stride = granules(buffer_bytes_) * kGranule;
  for (size_t first = 0; first < records_.used(); first += stride) {
    for (size_t offset = first; offset < first + stride;) {
      const Cell& piece = cell(static_cast<uint32_t>(offset / kGranule));
      // The pieces of a buffer fill its stride: a rest too small to be cut off is part of the piece before it.
      const size_t end = piece.size != 0 ? offset + granules(piece.size) * kGranule : first + stride;
      visit(offset, end, piece);
      offset = end;
    }
  }
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
  for (PrefaultedRegion* reserve : {&records_, &cells_, &index_}) reserve->keep_on_fork();
}

void Pool::drop_records() noexcept {
  size_t keep = 0;
  for_each([&](size_t begin, size_t end, const Cell& piece) {
    if (piece.state.load(std::memory_order_relaxed) != kLent) return;
    records_.forget(keep, begin);
    keep = end;
  });
  records_.forget(keep, records_.size());
}

size_t Pool::stranded() const noexcept {
  size_t stranded = 0;
  // Acquire: partner is the release in claim().
  for_each(
      [&](size_t, size_t, const Cell& piece) { stranded += piece.state.load(std::memory_order_acquire) == kLent; });
  return stranded;
}

}  // namespace kineto_spyre::capture
