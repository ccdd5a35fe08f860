#include "trace/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace kineto_spyre::trace {
namespace {

// Bytes of the UTF-8 character at `at`, 0 if there is none; its number goes to *code.
size_t utf8(std::string_view text, size_t at, uint32_t* code) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const auto tail = [&](size_t i) { return at + i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first >= 0xC2 && first <= 0xDF && tail(1)) {
    *code = (first & 0x1FU) << 6 | (byte(1) & 0x3FU);
    return 2;
  }
  if (first >= 0xE0 && first <= 0xEF && tail(1) && tail(2)) {
    *code = (first & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    return *code >= 0x800 && (*code < 0xD800 || *code > 0xDFFF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4 && tail(1) && tail(2) && tail(3)) {
    *code = (first & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
    return *code >= 0x10000 && *code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

bool plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

}  // namespace

std::string safe_text(std::string_view text) {
  const auto odd = static_cast<size_t>(std::ranges::find_if_not(text, plain) - text.begin());
  std::string out(text.substr(0, odd));
  if (odd == text.size()) return out;  // nearly all are
  for (size_t i = odd; i < text.size();) {
    const char c = text[i];
    if (plain(c)) {
      out += c;
    } else if (c == '"') {
      out += '\'';
    } else if (c == '\\') {
      out += '/';
    } else if (static_cast<uint8_t>(c) < 0x80) {
      out += ' ';
    } else {
      uint32_t code = 0;
      char shown[16];
      if (const size_t bytes = utf8(text, i, &code); bytes != 0) {
        std::snprintf(shown, sizeof(shown), "<U+%04X>", code);
        i += bytes - 1;
      } else {
        std::snprintf(shown, sizeof(shown), "<0x%02X>", static_cast<unsigned>(static_cast<uint8_t>(c)));
      }
      out += shown;
    }
    ++i;
  }
  return out;
}

std::string_view provenance_key(std::string_view name) {
  constexpr std::string_view prefix = "spyre_kernel_v1_";
  constexpr size_t length = 16;
  if (!name.starts_with(prefix)) return {};
  const size_t hash = name.rfind('#');
  if (hash == std::string_view::npos || hash < prefix.size() + length + 1 || name[hash - length - 1] != '_') return {};
  const std::string_view key = name.substr(hash - length, length);
  for (char c : key) {
    if (!((c >= 'a' && c <= 'z') || (c >= '2' && c <= '7'))) return {};
  }
  return key;
}

void JsonObject::grow(size_t more) { out_.resize(2 * (used_ + more), ' '); }

template <class T>
JsonObject& JsonObject::append_number(T value) {
  char* const at = out_.data() + used_;
  used_ += static_cast<size_t>(std::to_chars(at, at + kDigits, value).ptr - at);
  return *this;
}
template JsonObject& JsonObject::append_number(int64_t);
template JsonObject& JsonObject::append_number(uint64_t);

JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
  if (!std::ranges::all_of(value, plain)) return text(name, safe_text(value));
  return begin(name, value.size() + 2).append("\"").append(value).append("\"");
}

JsonObject& JsonObject::number(std::string_view name, double value) {
  if (!std::isfinite(value)) return *this;
  return begin(name, kDigits).append_number(value);
}

JsonObject& JsonObject::numbers(std::string_view name, std::span<const uint64_t> values) {
  begin(name, values.size() * kDigits + 2).append("[");
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) append(", ");
    append_number(values[i]);
  }
  return append("]");
}

}  // namespace kineto_spyre::trace
