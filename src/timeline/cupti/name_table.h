#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace headscope::timeline::cupti {

/// Kernel names, kept for the life of the process. By content: CUPTI before 13.4 reuses the address of a name when
/// modules are loaded again.
class NameTable {
 public:
  static constexpr std::size_t kMaxNames = 65'536;

  /// A view that stays valid; "(other)" once the table is full, "(unnamed)" for null.
  std::string_view intern(const char* name);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };

  std::mutex mutex_;
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
};

/// Shared by all sessions.
NameTable& name_table();

}  // namespace headscope::timeline::cupti
