#include "timeline/cupti/name_table.h"

namespace headscope::timeline::cupti {

std::string_view NameTable::intern(const char* name) {
  if (name == nullptr) {
    return "(unnamed)";
  }
  const std::string_view text(name);
  const std::lock_guard lock(mutex_);
  if (const auto known = names_.find(text); known != names_.end()) {
    return *known;
  }
  if (names_.size() >= kMaxNames) {
    return "(other)";
  }
  return *names_.emplace(text).first;
}

NameTable& name_table() {
  static NameTable* const table = new NameTable;  // never destroyed: records point into it
  return *table;
}

}  // namespace headscope::timeline::cupti
