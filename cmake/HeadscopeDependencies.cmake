# Python, torch, fmt, simdjson, zlib, pybind11 and GoogleTest, as far as the options need them.

# The Python whose torch is used, and for which headscope._core is built. In this order: -DPython_EXECUTABLE, an
# active virtual environment, .venv of the source tree, PATH.
if(NOT Python_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV} AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python that has torch")
endif()
set(Python_FIND_VIRTUALENV FIRST)
set(python_components Interpreter)
if(HEADSCOPE_BUILD_PYTHON)
  list(APPEND python_components Development.Module)
endif()
find_package(Python 3.10 REQUIRED COMPONENTS ${python_components})

if(HEADSCOPE_WITH_TORCH)
  include(HeadscopeTorch)
  headscope_find_torch("${Python_EXECUTABLE}" problem)
  if(problem)
    message(FATAL_ERROR "${problem}")
  endif()
  message(STATUS "torch ${HEADSCOPE_TORCH_VERSION} of ${Python_EXECUTABLE} (C++11 ABI ${HEADSCOPE_TORCH_CXX11_ABI})")
  # Strings cross the public API, so every object must have torch's ABI.
  target_compile_definitions(headscope_compiler INTERFACE _GLIBCXX_USE_CXX11_ABI=${HEADSCOPE_TORCH_CXX11_ABI})
endif()

# Header-only: torch ships another version of fmt inside its libraries.
find_package(fmt QUIET)
if(NOT TARGET fmt::fmt-header-only)
  message(FATAL_ERROR "fmt is missing. Install libfmt-dev, or set fmt_DIR to the folder of its fmt-config.cmake.")
endif()

# Recorded traces: JSON, plain or compressed.
find_package(simdjson 3.0 QUIET)
if(NOT TARGET simdjson::simdjson)
  message(FATAL_ERROR "simdjson >= 3.0 is missing. Install libsimdjson-dev, or set simdjson_DIR to the folder of its "
                      "simdjson-config.cmake.")
endif()
find_package(ZLIB QUIET)
if(NOT TARGET ZLIB::ZLIB)
  message(FATAL_ERROR "zlib is missing. Install zlib1g-dev, or set ZLIB_ROOT to the folder that holds it.")
endif()

# Optional: headers of CUPTI and CUDA, against which the layout of records in timeline/cupti/abi.h is checked.
find_path(HEADSCOPE_CUPTI_INCLUDE_DIR cupti_activity.h
          HINTS "$ENV{CUDA_HOME}/include" "$ENV{CUDA_HOME}/extras/CUPTI/include" /usr/local/cuda/include
                /usr/local/cuda/extras/CUPTI/include
          DOC "Folder of cupti_activity.h, to check layouts while compiling; not needed")
find_path(HEADSCOPE_CUDA_INCLUDE_DIR cuda.h HINTS "${HEADSCOPE_CUPTI_INCLUDE_DIR}" "$ENV{CUDA_HOME}/include"
                                                  /usr/local/cuda/include
          DOC "Folder of cuda.h, for the same")
mark_as_advanced(HEADSCOPE_CUPTI_INCLUDE_DIR HEADSCOPE_CUDA_INCLUDE_DIR)
if(NOT HEADSCOPE_CUDA_INCLUDE_DIR)
  set(HEADSCOPE_CUPTI_INCLUDE_DIR "")
endif()

if(HEADSCOPE_BUILD_PYTHON)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir OUTPUT_VARIABLE pybind11_dir
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 2.12 CONFIG QUIET HINTS "${pybind11_dir}")
  if(NOT pybind11_FOUND)
    message(FATAL_ERROR "pybind11 >= 2.12 is missing: ${Python_EXECUTABLE} -m pip install pybind11")
  endif()
endif()

if(HEADSCOPE_BUILD_TESTS)
  if(HEADSCOPE_WITH_TORCH AND NOT HEADSCOPE_TORCH_CXX11_ABI)
    # The system's GoogleTest has the other ABI; libgtest-dev brings the sources too.
    if(NOT EXISTS /usr/src/googletest/CMakeLists.txt)
      message(FATAL_ERROR "This torch has the old C++ ABI, so GoogleTest must be built from source: install libgtest-dev "
                          "(/usr/src/googletest), or set HEADSCOPE_BUILD_TESTS=OFF.")
    endif()
    add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=0)
    set(INSTALL_GTEST OFF)
    add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
    if(NOT TARGET GTest::gmock_main)
      foreach(name gtest gtest_main gmock gmock_main)
        add_library(GTest::${name} ALIAS ${name})
      endforeach()
    endif()
  else()
    find_package(GTest QUIET)
    if(NOT TARGET GTest::gmock_main)
      message(FATAL_ERROR "GoogleTest is missing. Install libgtest-dev and libgmock-dev, or set HEADSCOPE_BUILD_TESTS=OFF.")
    endif()
  endif()
endif()
