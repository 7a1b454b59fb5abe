#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "timeline/cupti/library.h"

namespace headscope::timeline::cupti {

/// The kinds of records that a session asks for. They are switched for the whole process.
class Kinds {
 public:
  /// Empty, or why tracing is of no use; then none is on. Kinds that can be done without become warnings.
  std::string enable(const Api& api, std::vector<std::string>& warnings);
  void disable(const Api& api);

 private:
  std::vector<std::uint32_t> on_;
};

}  // namespace headscope::timeline::cupti
