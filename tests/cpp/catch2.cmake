# Catch2 2.13, one header: from Debian's package catch2, else fetched. Defines the target catch2_main (with main()).
#
# The header is reached through a link of its own: /usr/include as an include directory would break a cross build.
find_path(CATCH2_HEADER_DIR catch2/catch.hpp PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH)
if(CATCH2_HEADER_DIR)
  set(catch2_include ${CMAKE_CURRENT_BINARY_DIR}/catch2_include)
  file(MAKE_DIRECTORY ${catch2_include})
  file(CREATE_LINK ${CATCH2_HEADER_DIR}/catch2 ${catch2_include}/catch2 SYMBOLIC)
  find_path(CATCH2_CMAKE_DIR Catch.cmake PATHS /usr/lib/cmake/Catch2 /usr/local/lib/cmake/Catch2
    /usr/lib64/cmake/Catch2 NO_CMAKE_FIND_ROOT_PATH)
else()
  message(STATUS "Catch2 2.13 is not installed (Debian: apt-get install catch2), so it is fetched from its repository.")
  include(FetchContent)
  FetchContent_Declare(catch2 GIT_REPOSITORY https://github.com/catchorg/Catch2.git GIT_TAG v2.13.10 GIT_SHALLOW TRUE)
  FetchContent_Populate(catch2)
  set(catch2_include ${catch2_SOURCE_DIR}/single_include)
  set(CATCH2_CMAKE_DIR ${catch2_SOURCE_DIR}/contrib)
endif()

# catch_discover_tests(): each test case is a test of ctest's. "" if this installation doesn't bring it.
if(CATCH2_CMAKE_DIR)
  include(${CATCH2_CMAKE_DIR}/Catch.cmake)
endif()

file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/catch2_main.cpp
  CONTENT "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
add_library(catch2_main OBJECT ${CMAKE_CURRENT_BINARY_DIR}/catch2_main.cpp)
target_include_directories(catch2_main SYSTEM PUBLIC ${catch2_include})
