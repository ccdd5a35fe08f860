// Text that survives every writer between us and the user's screen.
//
// Kineto writes names and metadata into JSON itself: it turns each backslash into a slash (which breaks an escape
// sequence), drops newlines, in some releases leaves quotes as they are, and calls an event "unknown" if any byte of
// its name is not printable ASCII. So what we hand over is printable ASCII without quotes and backslashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kineto_spyre::trace {

// Quotes become apostrophes, backslashes slashes, control characters spaces, other characters <U+20AC>, and bytes that
// are not UTF-8 <0xFF>.
std::string safe_text(std::string_view text);

// The 16 characters that identify a compiled kernel, or "": spyre_kernel_v1_<summary>_<16 lowercase base32>#<step>.
std::string_view provenance_key(std::string_view kernel_name);

// Writes one JSON object. Keys are ours (plain ASCII); text goes through safe_text. PyTorch asks each event for its
// metadata when a profile stops, so this writes into memory that is there already, and keys are copied inline.
class JsonObject {
 public:
  // How long it will be, about.
  explicit JsonObject(size_t expected = 0) : out_(expected, ' ') {}
  JsonObject& raw(std::string_view key, std::string_view json) { return begin(key, json.size()).append(json); }
  JsonObject& text(std::string_view key, std::string_view value);
  JsonObject& number(std::string_view key, int64_t value) { return begin(key, kDigits).append_number(value); }
  JsonObject& number(std::string_view key, uint64_t value) { return begin(key, kDigits).append_number(value); }
  JsonObject& number(std::string_view key, double value);  // not finite: left out
  JsonObject& numbers(std::string_view key, std::span<const uint64_t> values);
  JsonObject& boolean(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
  std::string members() && {  // without the braces
    out_.resize(used_);
    return std::move(out_);
  }
  std::string str() const { return '{' + out_.substr(0, used_) + '}'; }

 private:
  static constexpr size_t kDigits = 32;  // of any number, and ", "

  // Writes the key; has room for it and for so many characters more.
  JsonObject& begin(std::string_view key, size_t more) {
    have(key.size() + 6 + more);
    if (used_ != 0) append(", ");
    return append("\"").append(key).append("\": ");
  }
  void have(size_t more) {
    if (used_ + more > out_.size()) grow(more);
  }
  void grow(size_t more);
  // These need room.
  JsonObject& append(std::string_view text) {
    text.copy(out_.data() + used_, text.size());
    used_ += text.size();
    return *this;
  }
  template <class T>
  JsonObject& append_number(T value);

  std::string out_;
  size_t used_ = 0;
};

}  // namespace kineto_spyre::trace
