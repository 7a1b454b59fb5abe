# headscope_compiler: what every target of this build is compiled with. Never exported.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)

add_library(headscope_compiler INTERFACE)
target_compile_features(headscope_compiler INTERFACE cxx_std_20)
target_compile_options(
  headscope_compiler INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
                               # Designated initialisers name what differs from the default.
                               -Wno-missing-field-initializers
                               # False alarms of gcc 12 inside std::string and std::sort, once inlined.
                               $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
                               $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds>
                               $<$<BOOL:${HEADSCOPE_WERROR}>:-Werror>)
if(HEADSCOPE_SANITIZE)
  target_compile_options(headscope_compiler INTERFACE -fsanitize=${HEADSCOPE_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(headscope_compiler INTERFACE -fsanitize=${HEADSCOPE_SANITIZE})
endif()
if(HEADSCOPE_BUILD_FUZZER)
  target_compile_options(headscope_compiler INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
endif()

find_program(HEADSCOPE_CCACHE ccache)
if(HEADSCOPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${HEADSCOPE_CCACHE}")
endif()
