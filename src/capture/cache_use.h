#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// Blocks of a table that are looked at; larger batches tell no blocks.
inline constexpr std::size_t kMostTableBlocks = 4096;

/// Of keys that are the first part of a larger tensor along their sequence axis, as hand-written caches are: the next
/// larger stride is that of a whole sequence or head. Capacity 0 for any other tensor.
records::CacheUse use_of_view(const TensorView& keys, int sequence_axis, const records::Geometry& geometry) noexcept;

/// Of a paged cache. `table`: for each sequence `width` blocks, of which its length needs the first ones. A block that
/// sequences share counts once, with the most that one of them wrote. Blocks used stay −1 where the table is shorter
/// than the lengths, or needs more than kMostTableBlocks.
records::CacheUse use_of_blocks(std::span<const std::int64_t> table, std::size_t width,
                                std::span<const std::int64_t> lengths, std::int64_t block_size,
                                std::int64_t blocks_total);

}  // namespace headscope::capture
