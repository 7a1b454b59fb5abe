#pragma once

#include <string>
#include <vector>

#include "headscope/export.h"

namespace headscope {

/// One thing that headscope can or cannot do in this process.
struct Capability {
  std::string name;
  bool available = false;
  /// How, or why not and what to do about it.
  std::string detail;

  friend bool operator==(const Capability&, const Capability&) = default;
};

/// What can be measured here, and the reason for what cannot.
HEADSCOPE_EXPORT std::vector<Capability> capabilities();

}  // namespace headscope
