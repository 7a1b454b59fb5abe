#pragma once

#include <string>

#include "headscope/kv_cache.h"

namespace headscope::kv_cache {

/// A row with what follows from its use.
KvCacheRow describe(const KvCacheUse& use, const std::string& cache);
/// Throws Error that says what is wrong with figures that cannot be.
void check(const KvCacheUse& use, const std::string& cache);

}  // namespace headscope::kv_cache
