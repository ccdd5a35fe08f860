// The wire format of Protocol Buffers, as far as a Perfetto trace needs it: written forwards into memory that is there.
//
// A message that lies in another one has its length in front. Lengths here have as many bytes each (a varint that is
// padded, which every parser takes), so that nothing is moved when the message is done: two for at most 16,383 bytes,
// four for what holds a text that may be long.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kineto_spyre::writer {

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

class Proto {
 public:
  explicit Proto(char* at, int length_bytes = 2) : at_(at), length_bytes_(length_bytes) {}
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
    at_ += length_bytes_;
    return at_ - length_bytes_;
  }
  void end(char* length) {
    auto bytes = static_cast<uint32_t>(at_ - length - length_bytes_);
    for (int i = 0; i < length_bytes_ - 1; ++i, bytes >>= 7) length[i] = static_cast<char>((bytes & 0x7F) | 0x80);
    length[length_bytes_ - 1] = static_cast<char>(bytes);
  }

 private:
  char* at_;
  int length_bytes_;
};

}  // namespace kineto_spyre::writer
