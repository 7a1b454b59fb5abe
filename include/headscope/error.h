#pragma once

#include <stdexcept>

#include "headscope/export.h"

namespace headscope {

/// Wrong use of headscope. The message says what was wrong and what to do instead.
/// Thrown only from calls that the user makes into headscope, never from inside a profiled op.
class HEADSCOPE_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace headscope
