#include "aggregate/cache_sums.h"

#include <algorithm>

namespace headscope::aggregate {

void CacheSums::add(const records::AttentionCall& call) noexcept {
  if (call.direction != Direction::kForward || call.cache.capacity == 0 || call.call_id <= call_id_) {
    return;
  }
  call_id_ = call.call_id;
  sequences_ = call.geometry.batch;
  bytes_per_token_ = call.geometry.kv_heads * (call.geometry.head_dim * std::int64_t{call.k.element_size} +
                                               call.geometry.head_dim_v * std::int64_t{call.v.element_size});
  use_ = call.cache;
}

void CacheSums::merge(const CacheSums& other) noexcept {
  if (other.call_id_ > call_id_) {
    *this = other;
  }
}

KvCacheUse CacheSums::use() const {
  KvCacheUse use;
  use.sequences = sequences_;
  use.capacity_tokens = use_.capacity;
  use.bytes_per_token = static_cast<double>(bytes_per_token_);
  if (use_.block_size == 0) {
    use.kind = KvCacheKind::kView;
    use.reserved_tokens = use_.capacity;
    use.used_tokens = use_.used;
    return use;
  }
  use.kind = KvCacheKind::kPaged;
  if (use_.blocks_used >= 0) {
    use.reserved_tokens = use_.blocks_used * use_.block_size;
    use.used_tokens = use_.used;
    use.blocks = KvBlocks{.block_size = use_.block_size,
                          .total = use_.blocks_total,
                          .used = use_.blocks_used,
                          .slots_written = use_.used};
  }
  return use;
}

}  // namespace headscope::aggregate
