// Text that survives every writer between us and the user's screen.
//
// Kineto writes names and metadata into JSON itself: it turns each backslash into a slash (which breaks an escape
// sequence), drops newlines, in some releases leaves quotes as they are, and calls an event "unknown" if any byte of
// its name is not printable ASCII. So what we hand over is printable ASCII without quotes and backslashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace kineto_spyre::trace {

// Quotes become apostrophes, backslashes slashes, control characters spaces, other characters <U+20AC>, and bytes that
// are not UTF-8 <0xFF>.
std::string safe_text(std::string_view text);

// The 16 characters that identify a compiled kernel, or "": spyre_kernel_v1_<summary>_<16 lowercase base32>#<step>.
std::string_view provenance_key(std::string_view kernel_name);

// Writes one JSON object. Keys are ours (plain ASCII); text goes through safe_text.
class JsonObject {
 public:
  // How long it will be, about.
  explicit JsonObject(size_t expected = 0) { out_.reserve(expected); }
  JsonObject& raw(std::string_view key, std::string_view json);
  JsonObject& text(std::string_view key, std::string_view value);
  JsonObject& number(std::string_view key, int64_t value);
  JsonObject& number(std::string_view key, uint64_t value);
  JsonObject& number(std::string_view key, double value);  // not finite: left out
  JsonObject& boolean(std::string_view key, bool value);
  std::string members() && { return std::move(out_); }  // without the braces
  std::string str() const { return '{' + out_ + '}'; }

 private:
  void key(std::string_view key);
  std::string out_;
};

}  // namespace kineto_spyre::trace
