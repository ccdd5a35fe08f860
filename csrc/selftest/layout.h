// Where this build expects each field of each record: what selftest compares the records of a real library with.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kineto_spyre::selftest {

struct Field {
  std::string name;
  size_t offset;
  size_t bytes;
};

struct Layout {
  std::vector<int> kinds;  // numbers of AIUpti_ActivityKind with this layout
  std::string record;      // "compute", "memcpy", "memset", "memory", "api"
  size_t bytes;
  std::vector<Field> fields;  // those that the header has
};

std::vector<Layout> layouts();

}  // namespace kineto_spyre::selftest
