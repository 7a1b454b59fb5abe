#include "kv_cache/describe.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "headscope/error.h"

namespace headscope::kv_cache {
namespace {

std::optional<double> share(std::optional<std::int64_t> part, std::optional<std::int64_t> whole) {
  if (!part || !whole || *whole <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*part) / static_cast<double>(*whole);
}

void fill_bytes(const std::optional<std::int64_t>& tokens, const std::optional<double>& bytes_per_token,
                std::optional<std::int64_t>& bytes) {
  if (!bytes && tokens && bytes_per_token) {
    bytes = std::llround(static_cast<double>(*tokens) * *bytes_per_token);
  }
}

void forecast(KvCacheRow& row) {
  if (row.blocks && row.blocks->slots_written) {
    row.tokens_left = row.blocks->total * row.blocks->block_size - *row.blocks->slots_written;
    row.tokens_left_of = "capacity";
  } else if (row.capacity_tokens && row.used_tokens) {
    row.tokens_left = *row.capacity_tokens - *row.used_tokens;
    row.tokens_left_of = "capacity";
  } else if (row.device_free_bytes && row.bytes_per_token && *row.bytes_per_token > 0.0) {
    row.tokens_left = static_cast<std::int64_t>(static_cast<double>(*row.device_free_bytes) / *row.bytes_per_token);
    row.tokens_left_of = "device_memory";
  }
}

[[noreturn]] void refuse(const std::string& cache, const KvCacheUse& use, const std::string& problem) {
  throw Error("the KV cache " + cache + (use.layer.empty() ? "" : ", layer " + use.layer) + ": " + problem);
}

}  // namespace

KvCacheRow describe(const KvCacheUse& use, const std::string& cache) {
  KvCacheRow row;
  static_cast<KvCacheUse&>(row) = use;
  row.cache = cache;
  fill_bytes(row.capacity_tokens, row.bytes_per_token, row.capacity_bytes);
  fill_bytes(row.reserved_tokens, row.bytes_per_token, row.reserved_bytes);
  fill_bytes(row.used_tokens, row.bytes_per_token, row.used_bytes);
  const bool bounded = row.capacity_tokens.has_value();
  row.occupancy = share(row.used_tokens, bounded ? row.capacity_tokens : row.reserved_tokens);
  if (row.occupancy) {
    row.occupancy_of = bounded ? "capacity" : "reserved";
  }
  row.padding_share = share(row.padding_tokens, row.used_tokens);
  if (row.blocks) {
    row.block_occupancy = share(row.blocks->used, row.blocks->total);
    row.token_occupancy = share(row.blocks->slots_written, row.blocks->used * row.blocks->block_size);
    if (row.token_occupancy) {
      row.fragmentation = 1.0 - *row.token_occupancy;
    }
  }
  forecast(row);
  return row;
}

void check(const KvCacheUse& use, const std::string& cache) {
  const std::initializer_list<std::pair<const char*, std::optional<std::int64_t>>> figures = {
      {"layers", use.layers},
      {"sequences", use.sequences},
      {"capacity_tokens", use.capacity_tokens},
      {"reserved_tokens", use.reserved_tokens},
      {"used_tokens", use.used_tokens},
      {"padding_tokens", use.padding_tokens},
      {"shared_tokens", use.shared_tokens},
      {"capacity_bytes", use.capacity_bytes},
      {"reserved_bytes", use.reserved_bytes},
      {"used_bytes", use.used_bytes},
      {"device_free_bytes", use.device_free_bytes}};
  for (const auto& [name, value] : figures) {
    if (value && *value < 0) {
      refuse(cache, use, std::string(name) + " is " + std::to_string(*value) + "; it counts, so give 0 or more");
    }
  }
  if (use.bytes_per_token && !(*use.bytes_per_token >= 0.0 && std::isfinite(*use.bytes_per_token))) {
    refuse(cache, use, "bytes_per_token is " + std::to_string(*use.bytes_per_token) + "; give 0 or more");
  }
  const auto within = [&](const char* part, std::optional<std::int64_t> value, const char* whole,
                          std::optional<std::int64_t> limit) {
    if (value && limit && *value > *limit) {
      refuse(
          cache, use,
          std::string(part) + " is " + std::to_string(*value) + ", more than " + whole + ", " + std::to_string(*limit));
    }
  };
  within("used_tokens", use.used_tokens, "reserved_tokens", use.reserved_tokens);
  within("used_tokens", use.used_tokens, "capacity_tokens", use.capacity_tokens);
  within("padding_tokens", use.padding_tokens, "used_tokens", use.used_tokens);
  if (use.blocks) {
    const KvBlocks& blocks = *use.blocks;
    if (blocks.block_size < 1 || blocks.total < 0 || blocks.used < 0 || blocks.slots_written.value_or(0) < 0) {
      refuse(cache, use, "blocks need a block_size of 1 or more, and counts of 0 or more");
    }
    within("blocks.used", blocks.used, "blocks.total", blocks.total);
    within("blocks.slots_written", blocks.slots_written, "the slots of the used blocks",
           blocks.used * blocks.block_size);
  }
}

}  // namespace headscope::kv_cache
