// The wire format of Protocol Buffers, as far as a Perfetto trace needs it: written forwards into memory that is there.
//
// A message that lies in another one has its length in front. Lengths here are two bytes (a varint that is padded,
// which every parser takes), so that nothing is moved when the message is done: at most 16,383 bytes. Longer texts are
// written by text_message().
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kineto_spyre::writer {

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

class Proto {
 public:
  explicit Proto(char* at) : at_(at) {}
  char* at() const { return at_; }

  void varint(uint64_t value) {
    while (value >= 0x80) {
      *at_++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at_++ = static_cast<char>(value);
  }
  void tag(uint32_t field, Wire wire) { varint(field << 3 | wire); }
  void number(uint32_t field, uint64_t value) {
    tag(field, kVarint);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    tag(field, kFixed64);
    for (int i = 0; i < 8; ++i) *at_++ = static_cast<char>(value >> (8 * i));
  }
  void real(uint32_t field, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    fixed64(field, bits);
  }
  void text(uint32_t field, std::string_view value) {
    tag(field, kBytes);
    varint(value.size());
    std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }
  // Where the length of the message that begins here goes, for end().
  char* begin(uint32_t field) {
    tag(field, kBytes);
    at_ += 2;
    return at_ - 2;
  }
  void end(char* length) {
    const auto bytes = static_cast<uint32_t>(at_ - length - 2);
    length[0] = static_cast<char>((bytes & 0x7F) | 0x80);
    length[1] = static_cast<char>(bytes >> 7);
  }

 private:
  char* at_;
};

}  // namespace kineto_spyre::writer
