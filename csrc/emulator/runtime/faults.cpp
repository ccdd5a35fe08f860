#include "spyre_emulator/faults.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

#include "spyre_emulator/clock.h"

namespace kineto_spyre::emulator {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

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

  bool read() {
    if (key == "clock_offset") return offset();
    if (key == "clock_drift") return drift();
    if (key == "late") return span(faults.late_ns);
    if (key == "early") return flag(faults.early);
    if (key == "shuffle") return flag(faults.shuffle);
    if (key == "duplicate") return every(faults.duplicate);
    if (key == "drop") return every(faults.drop);
    if (key == "torn") return every(faults.torn);
    if (key == "zero_start") return every(faults.zero_start);
    if (key == "backwards") return every(faults.backwards);
    if (key == "size") return size();
    if (key == "bad_name") return every(faults.bad_name);
    if (key == "unterminated") return every(faults.unterminated);
    if (key == "unknown_kind") return every(faults.unknown_kind);
    if (key == "unknown_id") return every(faults.unknown_id);
    if (key == "no_buffers") return buffers();
    if (key == "truncate") return every(faults.truncate);
    if (key == "swap_buffers") return flag(faults.swap_buffers);
    if (key == "complete_twice") return every(faults.complete_twice);
    if (key == "complete_late") return span(faults.complete_late_ns);
    if (key == "strange_thread") return flag(faults.strange_thread);
    if (key == "fail") return functions();
    if (key == "null_record") return every(faults.null_record);
    if (key == "hang_flush") return span(faults.hang_flush_ns);
    if (key == "device_lost") return after(faults.device_lost, 0);
    if (key == "hang") return after(faults.hang, 1);
    if (key == "timeout") return span(faults.timeout_ns);
    if (key == "prepare") return flag(faults.prepare);
    *error = "there is no fault " + quoted(key) +
             "; the faults are clock_offset, clock_drift, late, early, shuffle, duplicate, drop, torn, zero_start, "
             "backwards, size, bad_name, unterminated, unknown_kind, unknown_id, no_buffers, truncate, swap_buffers, "
             "complete_twice, complete_late, strange_thread, fail, null_record, hang_flush, device_lost, hang, timeout "
             "and prepare";
    return false;
  }
};

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
    if (equals == std::string_view::npos) {
      *error = "a fault is written key=value; " + quoted(pair) + " has no '='";
      return nullptr;
    }
    Reader reader{*faults, trimmed(pair.substr(0, equals)), trimmed(pair.substr(equals + 1)), error};
    if (!reader.read()) return nullptr;
    if (comma == std::string_view::npos) break;
    left = left.substr(comma + 1);
  }
  const uint64_t now = host_now_ns();
  for (DeviceClock& clock : faults->clocks) clock.epoch_ns = now;
  return faults;
}

}  // namespace kineto_spyre::emulator
