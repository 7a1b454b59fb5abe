#include <utility>

#include "headscope/kv_cache.h"
#include "kv_cache/registry.h"

namespace headscope {

KvCacheGauge::KvCacheGauge(std::string name, std::uint64_t profiler)
    : entry_(kv_cache::the_registry().open(std::move(name), {}, profiler)) {}

KvCacheGauge::~KvCacheGauge() { entry_->close(); }

void KvCacheGauge::set(std::vector<KvCacheUse> uses) { entry_->set(std::move(uses)); }

std::string_view to_string(KvCacheKind kind) noexcept {
  switch (kind) {
    case KvCacheKind::kDynamic:
      return "dynamic";
    case KvCacheKind::kStatic:
      return "static";
    case KvCacheKind::kSliding:
      return "sliding";
    case KvCacheKind::kQuantized:
      return "quantized";
    case KvCacheKind::kPaged:
      return "paged";
    case KvCacheKind::kView:
      return "view";
    case KvCacheKind::kRegistered:
      return "registered";
  }
  return "unknown";
}

}  // namespace headscope
