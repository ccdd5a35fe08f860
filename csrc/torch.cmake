# Finds the installed PyTorch without loading it, and without its CMake package: that one demands a CUDA toolkit when
# the wheel is a CUDA build, and we use no CUDA. Order: KINETO_SPYRE_TORCH_DIR, the interpreter's own path, and, in an
# isolated build, the environment that the interpreter belongs to.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
set(KINETO_SPYRE_TORCH_DIR "$ENV{KINETO_SPYRE_TORCH_DIR}" CACHE PATH "The folder of the torch package to build against")
if(NOT KINETO_SPYRE_TORCH_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/find_torch.py --dir
    OUTPUT_VARIABLE KINETO_SPYRE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS "${KINETO_SPYRE_TORCH_DIR}/version.py")
  message(FATAL_ERROR "No PyTorch in '${KINETO_SPYRE_TORCH_DIR}'. Install the release to build for "
                      "(pip install torch==2.13.0), or set KINETO_SPYRE_TORCH_DIR to a torch package folder.")
endif()
file(STRINGS "${KINETO_SPYRE_TORCH_DIR}/version.py" _version REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+" KINETO_SPYRE_TORCH_VERSION "${_version}")
message(STATUS "PyTorch ${KINETO_SPYRE_TORCH_VERSION} in ${KINETO_SPYRE_TORCH_DIR}")
if(NOT EXISTS "${KINETO_SPYRE_TORCH_DIR}/include/torch/csrc/profiler/standalone/privateuse1_profiler.h")
  message(FATAL_ERROR "PyTorch ${KINETO_SPYRE_TORCH_VERSION} in '${KINETO_SPYRE_TORCH_DIR}' has no place for a "
                      "PrivateUse1 profiler; that came with 2.12. Install a newer one.")
endif()

find_package(pybind11 CONFIG REQUIRED)

add_library(kineto_spyre_torch INTERFACE)
target_include_directories(kineto_spyre_torch SYSTEM INTERFACE
  ${KINETO_SPYRE_TORCH_DIR}/include
  ${KINETO_SPYRE_TORCH_DIR}/include/torch/csrc/api/include
  ${KINETO_SPYRE_TORCH_DIR}/include/kineto)
# FMT_HEADER_ONLY: the wheel exports no fmt, and GenericTraceActivity.h would leave fmt::vformat undefined.
target_compile_definitions(kineto_spyre_torch INTERFACE USE_KINETO FMT_HEADER_ONLY)
target_link_libraries(kineto_spyre_torch INTERFACE
  ${KINETO_SPYRE_TORCH_DIR}/lib/libtorch_cpu.so
  ${KINETO_SPYRE_TORCH_DIR}/lib/libc10.so)
