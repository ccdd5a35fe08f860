# From the table kineto_spyre/diagnostics.json to the header diagnostic_codes.h: an enumerator and a line of facts for
# each diagnostic. The sentences are Python's alone.
set(table "${PROJECT_SOURCE_DIR}/kineto_spyre/diagnostics.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
file(READ "${table}" json)
string(JSON count LENGTH "${json}" diagnostics)
math(EXPR last "${count} - 1")
set(enumerators "")
set(facts "")
foreach(i RANGE ${last})
  foreach(field code severity missing)
    string(JSON ${field} GET "${json}" diagnostics ${i} ${field})
  endforeach()
  set(name "")
  string(REPLACE "_" ";" words "_${code}")
  foreach(word ${words})
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND name "${first}${rest}")
  endforeach()
  if(NOT severity MATCHES "^(error|warning|note)$")
    message(FATAL_ERROR "${table}: the severity of ${code} is '${severity}'; expected error, warning or note.")
  endif()
  if(missing)
    set(missing true)
  else()
    set(missing false)
  endif()
  string(APPEND enumerators "  k${name},\n")
  string(APPEND facts "    {\"${code}\", ${missing}},\n")
endforeach()
set(DIAGNOSTIC_CODES_INCLUDE "${CMAKE_CURRENT_BINARY_DIR}/diagnostic_codes")
file(CONFIGURE OUTPUT "${DIAGNOSTIC_CODES_INCLUDE}/diagnostic_codes.h" @ONLY CONTENT [[
// Made from kineto_spyre/diagnostics.json by cmake/diagnostic_codes.cmake: change the table, not this.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kineto_spyre::diagnostics {

enum class Code : uint8_t {
@enumerators@};

struct CodeFacts {
  std::string_view name;
  bool missing;  // something that happened is not in the trace
};
inline constexpr std::array<CodeFacts, @count@> kCodes = {{
@facts@}};
constexpr std::string_view name(Code code) { return kCodes[static_cast<std::size_t>(code)].name; }
constexpr bool means_missing_data(Code code) { return kCodes[static_cast<std::size_t>(code)].missing; }

}  // namespace kineto_spyre::diagnostics
]])
add_library(diagnostic_codes INTERFACE)
target_include_directories(diagnostic_codes INTERFACE "${DIAGNOSTIC_CODES_INCLUDE}")
