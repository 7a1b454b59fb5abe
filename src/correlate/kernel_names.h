#pragma once

#include <cstdint>
#include <string_view>

#include "headscope/types.h"

namespace headscope::correlate {

/// What a kernel's name says of it.
struct KernelName {
  enum class Kind : std::uint8_t {
    kNoAttention,  ///< also what the table does not know
    kAttention,    ///< one launch is one call of attention
    kHelper,       ///< part of a call that has another main kernel: a split's reduction, a backward's preparation
  };

  Kind kind = Kind::kNoAttention;
  Direction direction = Direction::kForward;
  std::string_view family;    ///< "flash", "efficient"; empty for kNoAttention
  std::string_view known_as;  ///< the part of the name that told; of static life
};

/// By a table of what attention libraries call their kernels, mangled or not. Pointwise kernels of a compiler carry the
/// names of the ops around them and are no attention.
KernelName read_kernel_name(std::string_view name) noexcept;

}  // namespace headscope::correlate
