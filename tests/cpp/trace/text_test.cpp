#include <cmath>
#include <limits>

#include <catch2/catch.hpp>
#include "trace/text.h"

using namespace kineto_spyre::trace;

TEST_CASE("a JSON object of numbers, text and what was rendered before") {
  JsonObject inner;
  inner.number("least", std::numeric_limits<int64_t>::min()).number("most", std::numeric_limits<uint64_t>::max());
  JsonObject json;
  json.text("text", "a\"b\\c\n").number("ratio", 0.5).boolean("yes", true).boolean("no", false);
  json.raw("inner", inner.str()).raw("list", "[1, 2]");
  CHECK(json.str() == R"({"text": "a'b/c ", "ratio": 0.5, "yes": true, "no": false, )"
                      R"("inner": {"least": -9223372036854775808, "most": 18446744073709551615}, "list": [1, 2]})");
}

TEST_CASE("what JSON has no number for is left out") {
  JsonObject json;
  json.number("infinite", std::numeric_limits<double>::infinity()).number("none", std::nan("")).number("one", 1.0);
  CHECK(json.str() == R"({"one": 1})");
}

TEST_CASE("an empty object") { CHECK(JsonObject().str() == "{}"); }

TEST_CASE("an object longer than was expected") {
  JsonObject json(8);
  const uint64_t values[] = {0, std::numeric_limits<uint64_t>::max(), 7};
  const std::string text(1000, 'x');
  json.numbers("values", values).text("text", text).numbers("none", {}).number("last", int64_t{-1});
  CHECK(json.str() == R"({"values": [0, 18446744073709551615, 7], "text": ")" + text + R"(", "none": [], "last": -1})");
  CHECK(std::move(json).members().starts_with(R"("values": [0,)"));
}
