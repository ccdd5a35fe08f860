#include "spyre_emulator/faults.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>

#include "spyre_emulator/clock.h"

namespace kineto_spyre::emulator {
namespace {

constexpr int64_t kMostEndCode = 1023;     // what AIUpti_ResultTypes can hold: its largest enumerator has 10 bits
constexpr int64_t kCycleStampsBytes = 40;  // five of 8 bytes, at the end of compute records

std::string quoted(std::string_view text) {
  std::string result(1, '\'');
  result += text;
  result += '\'';
  return result;
}

std::optional<double> number(std::string_view text, std::string_view* rest) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || errno != 0 || !std::isfinite(value)) return std::nullopt;
  *rest = text.substr(static_cast<size_t>(end - copy.c_str()));
  return value;
}

std::optional<int64_t> integer(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(copy.c_str(), &end, 10);
  if (end == copy.c_str() || *end != '\0' || errno != 0) return std::nullopt;
  return value;
}

std::optional<int64_t> duration_ns(std::string_view text) {
  std::string_view unit;
  const auto value = number(text, &unit);
  if (!value) return std::nullopt;
  double scale = 0;
  if (unit.empty() || unit == "ns") scale = 1;
  if (unit == "us") scale = 1e3;
  if (unit == "ms") scale = 1e6;
  if (unit == "s") scale = 1e9;
  const double ns = *value * scale;
  if (scale == 0 || std::fabs(ns) > 1e15) return std::nullopt;  // 11 days
  return std::llround(ns);
}

// Reads values of one key; what they may be is the name of the function.
struct Reader {
  Faults& faults;
  std::string_view key, value;
  std::string* error;

  bool refuse(const char* expected) {
    *error = "the fault " + quoted(key) + " takes " + expected + "; " + quoted(value) + " is not one";
    return false;
  }

  // Cuts "D:" off the value.
  bool devices(int* first, int* last) {
    *first = 0;
    *last = kMaxDevices - 1;
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) return true;
    const auto device = integer(value.substr(0, colon));
    if (!device || *device < 0 || *device >= kMaxDevices) return refuse("a device from 0 to 7 before the colon");
    *first = *last = static_cast<int>(*device);
    value = value.substr(colon + 1);
    return true;
  }

  bool every(Every& target) {
    const auto n = integer(value);
    if (!n || *n < 1) return refuse("a number of at least 1 (every N-th)");
    target.set(static_cast<uint64_t>(*n));
    return true;
  }

  bool flag(bool& target) {
    if (value != "0" && value != "1") return refuse("0 or 1");
    target = value == "1";
    return true;
  }

  bool span(uint64_t& target) {
    const auto ns = duration_ns(value);
    if (!ns || *ns < 0) return refuse("a duration such as 250us, 20ms or 1.5s");
    target = static_cast<uint64_t>(*ns);
    return true;
  }

  bool after(std::array<After, kMaxDevices>& target, int64_t least) {
    int first, last;
    if (!devices(&first, &last)) return false;
    const auto n = integer(value);
    if (!n || *n < least) return refuse(least == 0 ? "a number of at least 0" : "a number of at least 1");
    for (int device = first; device <= last; ++device) target[static_cast<size_t>(device)].set(*n);
    return true;
  }

  bool offset() {
    int first, last;
    if (!devices(&first, &last)) return false;
    const auto ns = duration_ns(value);
    if (!ns) return refuse("a duration such as 5ms or -5ms");
    for (int device = first; device <= last; ++device) faults.clocks[static_cast<size_t>(device)].offset_ns = *ns;
    return true;
  }

  bool drift() {
    int first, last;
    if (!devices(&first, &last)) return false;
    std::string_view rest;
    const auto ppm = number(value, &rest);
    if (!ppm || (!rest.empty() && rest != "ppm") || std::fabs(*ppm) > 1e4) {
      return refuse("parts per million from -10000 to 10000");
    }
    for (int device = first; device <= last; ++device) faults.clocks[static_cast<size_t>(device)].drift = *ppm * 1e-6;
    return true;
  }

  bool throttle() {
    int first, last;
    if (!devices(&first, &last)) return false;
    std::string_view rest;
    const auto celsius = number(value, &rest);
    if (!celsius || (!rest.empty() && rest != "C") || *celsius <= 0 || *celsius > 200) {
      return refuse("degrees Celsius above 0 and up to 200");
    }
    for (int device = first; device <= last; ++device) faults.throttle[static_cast<size_t>(device)] = *celsius;
    return true;
  }

  bool size() {
    const auto bytes = integer(value);
    // 8: the alignment of records. The prefix up to the name must stay.
    if (!bytes || *bytes % 8 != 0 || *bytes < -168 || *bytes > 1024) {
      return refuse("a multiple of 8 from -168 to 1024, such as +40 or -40");
    }
    faults.size = *bytes;
    return true;
  }

  bool buffers() {
    const auto n = integer(value);
    if (!n || *n < 0) return refuse("a number of at least 0");
    faults.no_buffers.set(*n);
    return true;
  }

  bool functions() {
    std::string_view left = value;
    while (true) {
      const size_t plus = left.find('+');
      const std::string_view name = left.substr(0, plus);
      if (name == "register") {
        faults.fail |= kFailRegister;
      } else if (name == "enable") {
        faults.fail |= kFailEnable;
      } else if (name == "disable") {
        faults.fail |= kFailDisable;
      } else if (name == "next") {
        faults.fail |= kFailNext;
      } else if (name == "dropped") {
        faults.fail |= kFailDropped;
      } else if (name == "flush") {
        faults.fail |= kFailFlush;
      } else {
        return refuse("names out of register, enable, disable, next, dropped and flush, joined by +");
      }
      if (plus == std::string_view::npos) return true;
      left = left.substr(plus + 1);
    }
  }

  bool buffer_limit() {
    const auto n = integer(value);
    if (!n || *n < 1) return refuse("a number of at least 1");
    faults.buffer_limit = static_cast<uint64_t>(*n);
    return true;
  }

  bool end_code() {
    const auto code = integer(value);
    if (!code || *code < 1 || *code > kMostEndCode) return refuse("a result code from 1 to 1023");
    faults.end_code = static_cast<int32_t>(*code);
    return true;
  }

  bool flush_when_disabled() {
    if (value != "nothing" && value != "fail") return refuse("'nothing' or 'fail'");
    faults.flush_when_disabled = value == "fail" ? FlushWhenDisabled::kFail : FlushWhenDisabled::kNothing;
    return true;
  }

  bool short_compute() {
    bool on = false;
    if (!flag(on)) return false;
    if (on) faults.size = -kCycleStampsBytes;
    return true;
  }
};

struct Key {
  std::string_view name;
  bool (*read)(Reader& reader);
  bool is_flag = false;
};

template <auto Member>
constexpr Key every(std::string_view name) {
  return {name, [](Reader& r) { return r.every(r.faults.*Member); }};
}
template <auto Member>
constexpr Key flag(std::string_view name) {
  return {name, [](Reader& r) { return r.flag(r.faults.*Member); }, true};
}
template <auto Member>
constexpr Key span(std::string_view name) {
  return {name, [](Reader& r) { return r.span(r.faults.*Member); }};
}

constexpr Key kKeys[] = {
    {"clock_offset", [](Reader& r) { return r.offset(); }},
    {"clock_drift", [](Reader& r) { return r.drift(); }},
    span<&Faults::late_ns>("late"),
    flag<&Faults::early>("early"),
    flag<&Faults::shuffle>("shuffle"),
    every<&Faults::duplicate>("duplicate"),
    every<&Faults::drop>("drop"),
    every<&Faults::torn>("torn"),
    every<&Faults::zero_start>("zero_start"),
    every<&Faults::backwards>("backwards"),
    {"size", [](Reader& r) { return r.size(); }},
    every<&Faults::bad_name>("bad_name"),
    every<&Faults::unterminated>("unterminated"),
    every<&Faults::unknown_kind>("unknown_kind"),
    every<&Faults::unknown_id>("unknown_id"),
    {"no_buffers", [](Reader& r) { return r.buffers(); }},
    every<&Faults::truncate>("truncate"),
    flag<&Faults::swap_buffers>("swap_buffers"),
    every<&Faults::complete_twice>("complete_twice"),
    span<&Faults::complete_late_ns>("complete_late"),
    flag<&Faults::strange_thread>("strange_thread"),
    {"fail", [](Reader& r) { return r.functions(); }},
    every<&Faults::null_record>("null_record"),
    span<&Faults::hang_flush_ns>("hang_flush"),
    flag<&Faults::discard_at_disable>("discard_at_disable"),
    {"flush_when_disabled", [](Reader& r) { return r.flush_when_disabled(); }},
    flag<&Faults::rotate_at_flush>("rotate_at_flush"),
    {"end_code", [](Reader& r) { return r.end_code(); }},
    {"buffer_limit", [](Reader& r) { return r.buffer_limit(); }},
    flag<&Faults::buffer_per_thread>("buffer_per_thread"),
    flag<&Faults::null_thread_ids>("null_thread_ids"),
    flag<&Faults::other_namespace>("other_namespace"),
    flag<&Faults::other_process>("other_process"),
    flag<&Faults::wrong_thread_ids>("wrong_thread_ids"),
    flag<&Faults::api_field_order>("api_field_order"),
    flag<&Faults::attributes>("attributes"),
    {"short_compute", [](Reader& r) { return r.short_compute(); }, true},
    flag<&Faults::collectives>("collectives"),
    flag<&Faults::dmi_dmo>("dmi_dmo"),
    flag<&Faults::prepare>("prepare"),
    {"device_lost", [](Reader& r) { return r.after(r.faults.device_lost, 0); }},
    {"hang", [](Reader& r) { return r.after(r.faults.hang, 1); }},
    {"throttle", [](Reader& r) { return r.throttle(); }},
    span<&Faults::timeout_ns>("timeout"),
};

const Key* find_key(std::string_view name, std::string* error) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  *error = "there is no fault " + quoted(name) + "; the faults are ";
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    if (i != 0) *error += i + 1 == std::size(kKeys) ? " and " : ", ";
    *error += kKeys[i].name;
  }
  return nullptr;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace

std::unique_ptr<Faults> parse_faults(const char* specification, std::string* error) {
  error->clear();
  std::string_view left = trimmed(specification == nullptr ? "" : specification);
  if (left.empty()) return nullptr;
  auto faults = std::make_unique<Faults>();
  while (true) {
    const size_t comma = left.find(',');
    const std::string_view pair = trimmed(left.substr(0, comma));
    const size_t equals = pair.find('=');
    const std::string_view name = trimmed(pair.substr(0, equals));
    if (name.empty()) {
      *error = "a fault is written key=value; " + quoted(pair) + " is not";
      return nullptr;
    }
    const Key* const key = find_key(name, error);
    if (key == nullptr) return nullptr;
    if (equals == std::string_view::npos && !key->is_flag) {
      *error = "the fault " + quoted(name) + " takes a value, written " + std::string(name) + "=value";
      return nullptr;
    }
    Reader reader{*faults, name, equals == std::string_view::npos ? "1" : trimmed(pair.substr(equals + 1)), error};
    if (!key->read(reader)) return nullptr;
    if (comma == std::string_view::npos) break;
    left = left.substr(comma + 1);
  }
  const uint64_t now = host_now_ns();
  for (EmulatedClock& clock : faults->clocks) clock.epoch_ns = now;
  return faults;
}

}  // namespace kineto_spyre::emulator
