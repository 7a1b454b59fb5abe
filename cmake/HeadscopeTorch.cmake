# Finds torch through Python. torch's own find_package(Torch) demands a CUDA toolkit for a CUDA build of torch;
# headscope links no CUDA library and needs none. Used by this build and, installed beside headscopeConfig.cmake,
# by consumers.
#
# headscope_find_torch(<python> <reason>) makes
#   headscope::torch_cpu  libtorch_cpu and libc10 with torch's headers: all that headscope itself links
#   headscope::torch      the same and libtorch: for programs that use the C++ API of torch
# and sets HEADSCOPE_TORCH_VERSION, HEADSCOPE_TORCH_LIB_DIR and HEADSCOPE_TORCH_CXX11_ABI. When that fails, <reason>
# says why and what to do; else it is empty.

macro(_headscope_torch_failed text)
  set(${reason} "${text}" PARENT_SCOPE)
  return()
endmacro()

function(_headscope_import_torch_library name location)
  if(NOT TARGET headscope::${name})
    add_library(headscope::${name} SHARED IMPORTED)
    set_target_properties(headscope::${name} PROPERTIES IMPORTED_LOCATION "${location}")
  endif()
endfunction()

function(headscope_find_torch python reason)
  execute_process(
    COMMAND
      "${python}" -c
      "import os, torch; print(torch.__version__, os.path.dirname(os.path.abspath(torch.__file__)), int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=chr(10))"
    OUTPUT_VARIABLE answer
    ERROR_VARIABLE error
    RESULT_VARIABLE status
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    string(REGEX REPLACE ".*\n([^\n]+)\n*$" "\\1" last_line "${error}")
    _headscope_torch_failed("${python} has no usable torch (${last_line}). Install torch >= 2.6 there, or name another Python \
with -DPython_EXECUTABLE=...")
  endif()
  string(REPLACE "\n" ";" answer "${answer}")
  list(GET answer 0 version)
  list(GET answer 1 root)
  list(GET answer 2 abi)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+(\\.[0-9]+)?" number "${version}")
  if(number VERSION_LESS 2.6)
    _headscope_torch_failed("${python} has torch ${version}; headscope needs 2.6 or later.")
  endif()
  foreach(file lib/libtorch.so lib/libtorch_cpu.so lib/libc10.so include/torch/library.h)
    if(NOT EXISTS "${root}/${file}")
      _headscope_torch_failed("torch ${version} at ${root} has no ${file}. Install torch from a wheel that has its C++ files.")
    endif()
  endforeach()

  _headscope_import_torch_library(libtorch "${root}/lib/libtorch.so")
  _headscope_import_torch_library(libtorch_cpu "${root}/lib/libtorch_cpu.so")
  _headscope_import_torch_library(libc10 "${root}/lib/libc10.so")
  if(NOT TARGET headscope::torch)
    add_library(headscope::torch_cpu INTERFACE IMPORTED)
    set_target_properties(
      headscope::torch_cpu
      PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${root}/include;${root}/include/torch/csrc/api/include"
        # NDEBUG: torch's wheels are built with it, and classes such as at::RecordFunction have members only without.
        INTERFACE_COMPILE_DEFINITIONS "NDEBUG;_GLIBCXX_USE_CXX11_ABI=${abi}"
        INTERFACE_COMPILE_FEATURES cxx_std_20
        INTERFACE_LINK_LIBRARIES "headscope::libtorch_cpu;headscope::libc10"
        # A CUDA build of libtorch_cpu needs CUDA libraries that the loader finds and the linker does not.
        INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
    add_library(headscope::torch INTERFACE IMPORTED)
    set_target_properties(headscope::torch PROPERTIES INTERFACE_LINK_LIBRARIES "headscope::libtorch;headscope::torch_cpu")
  endif()

  set(HEADSCOPE_TORCH_VERSION "${version}" PARENT_SCOPE)
  set(HEADSCOPE_TORCH_LIB_DIR "${root}/lib" PARENT_SCOPE)
  set(HEADSCOPE_TORCH_CXX11_ABI "${abi}" PARENT_SCOPE)
  set(${reason} "" PARENT_SCOPE)
endfunction()
