# Everything that can be switched from the command line, in one place.

option(HEADSCOPE_WITH_TORCH "Build the library; OFF builds only the stages that need no torch, and their unit tests" ON)
option(HEADSCOPE_BUILD_PYTHON "Build the Python module headscope._core" OFF)
option(HEADSCOPE_BUILD_TESTS "Build the tests" "${PROJECT_IS_TOP_LEVEL}")
option(HEADSCOPE_BUILD_BENCHMARKS "Build the benchmarks (needs Google Benchmark)" OFF)
option(HEADSCOPE_BUILD_FUZZER "Build the fuzzer of the trace reader, and everything for it (clang)" OFF)
option(HEADSCOPE_WERROR "Treat warnings as errors" OFF)
set(HEADSCOPE_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize takes them: address,undefined or thread")

if(NOT HEADSCOPE_WITH_TORCH AND (HEADSCOPE_BUILD_PYTHON OR HEADSCOPE_BUILD_BENCHMARKS))
  message(FATAL_ERROR "HEADSCOPE_WITH_TORCH=OFF leaves out the library that the Python module and the benchmarks link. "
                      "Set HEADSCOPE_BUILD_PYTHON=OFF and HEADSCOPE_BUILD_BENCHMARKS=OFF, or HEADSCOPE_WITH_TORCH=ON.")
endif()
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "headscope runs on Linux only (this is ${CMAKE_SYSTEM_NAME}).")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
