#include "trace/diagnostics.h"

#include <algorithm>
#include <utility>

namespace kineto_spyre::trace {

void Diagnostics::add(Code code, uint64_t count, const JsonObject& details) { add(code, count, details.str()); }

void Diagnostics::add(const Diagnostics& others) {
  for (const Diagnostic& other : others.all_) add(other.code, other.count, other.details);
}

void Diagnostics::add(Code code, uint64_t count, std::string details) {
  if (count == 0) return;
  for (Diagnostic& known : all_) {
    if (known.code != code || known.details != details) continue;
    known.count += count;
    return;
  }
  all_.push_back({code, count, std::move(details)});
}

bool Diagnostics::complete() const {
  return std::ranges::none_of(all_, diagnostics::means_missing_data, &Diagnostic::code);
}

uint64_t Diagnostics::count(Code code) const {
  uint64_t count = 0;
  for (const Diagnostic& diagnostic : all_) count += diagnostic.code == code ? diagnostic.count : 0;
  return count;
}

std::string Diagnostics::json() const {
  std::string list;
  for (const Diagnostic& diagnostic : all_) {
    JsonObject one;
    one.text("code", diagnostics::name(diagnostic.code)).number("count", diagnostic.count);
    one.raw("details", diagnostic.details);
    list += (list.empty() ? "" : ", ") + one.str();
  }
  return '[' + list + ']';
}

}  // namespace kineto_spyre::trace
