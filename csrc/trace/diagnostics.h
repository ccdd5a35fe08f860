// What went wrong in a session, and what its user must know: codes with counts and details, never sentences.
//
// In: whatever a room found (a Code of the table kineto_spyre/diagnostics.json, how often, and what makes the sentence
// definite: a path, a result code, the first event concerned). Out: JSON for the trace's metadata and for Python, which
// alone makes sentences (kineto_spyre/diagnostics.py); and whether the session is complete.
//
// A finding with the code and the details of an earlier one adds to its count. Order: as first added. Owner: the
// session; no thread but its own touches it. Throws std::bad_alloc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnostic_codes.h"
#include "trace/text.h"

namespace kineto_spyre::trace {

using diagnostics::Code;

struct Diagnostic {
  Code code;
  uint64_t count;
  std::string details;  // a JSON object
};

class Diagnostics {
 public:
  // Nothing happens for a count of 0.
  void add(Code code, uint64_t count = 1, const JsonObject& details = JsonObject());
  void add(const Diagnostics& others);

  // Whether nothing is missing, as far as is known.
  bool complete() const;
  uint64_t count(Code code) const;
  const std::vector<Diagnostic>& all() const { return all_; }
  // [{"code": "records_dropped", "count": 3, "details": {}}, ...]
  std::string json() const;

 private:
  void add(Code code, uint64_t count, std::string details);

  std::vector<Diagnostic> all_;
};

}  // namespace kineto_spyre::trace
