#include "capture/cache_use.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace headscope::capture {

records::CacheUse use_of_view(const TensorView& keys, int sequence_axis, const records::Geometry& geometry) noexcept {
  if (keys.dims < 3) {
    return {};
  }
  const auto axis = static_cast<std::size_t>(sequence_axis < 0 ? sequence_axis + keys.dims : sequence_axis);
  const std::int64_t slot = keys.strides[axis];
  const std::int64_t length = keys.sizes[axis];
  std::int64_t outer = std::numeric_limits<std::int64_t>::max();
  for (std::size_t other = 0; std::cmp_less(other, keys.dims); ++other) {
    if (keys.strides[other] > slot) {
      outer = std::min(outer, keys.strides[other]);
    }
  }
  if (slot <= 0 || outer == std::numeric_limits<std::int64_t>::max() || outer % slot != 0 || outer / slot <= length) {
    return {};
  }
  return {.capacity = geometry.batch * (outer / slot), .used = geometry.batch * length};
}

records::CacheUse use_of_blocks(std::span<const std::int64_t> table, std::size_t width,
                                std::span<const std::int64_t> lengths, std::int64_t block_size,
                                std::int64_t blocks_total) {
  records::CacheUse use{.capacity = blocks_total * block_size, .block_size = block_size, .blocks_total = blocks_total};
  if (block_size <= 0 || table.size() != width * lengths.size()) {
    return use;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> written;  // block, slots
  for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    std::int64_t left = std::max<std::int64_t>(lengths[sequence], 0);
    for (std::size_t i = 0; left > 0; ++i, left -= block_size) {
      if (i == width || written.size() == kMostTableBlocks) {
        return use;
      }
      written.emplace_back(table[sequence * width + i], std::min(left, block_size));
    }
  }
  std::ranges::sort(written, std::ranges::greater{});
  // Of equal blocks the one with most slots comes first.
  const auto same_block = [](const auto& a, const auto& b) { return a.first == b.first; };
  written.erase(std::unique(written.begin(), written.end(), same_block), written.end());
  use.blocks_used = static_cast<std::int64_t>(written.size());
  for (const auto& [block, slots] : written) {
    use.used += slots;
  }
  return use;
}

}  // namespace headscope::capture
