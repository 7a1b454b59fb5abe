#pragma once

#include <cstdint>

#include "headscope/kv_cache.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// The cache that a row's calls read, as the latest of them saw it.
class CacheSums {
 public:
  void add(const records::AttentionCall& call) noexcept;
  void merge(const CacheSums& other) noexcept;

  [[nodiscard]] bool seen() const noexcept { return call_id_ > 0; }
  [[nodiscard]] std::uint64_t call_id() const noexcept { return call_id_; }
  /// Of one layer, without its name.
  [[nodiscard]] KvCacheUse use() const;

 private:
  std::uint64_t call_id_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t bytes_per_token_ = 0;
  records::CacheUse use_;
};

}  // namespace headscope::aggregate
