#include "capture/cache_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace headscope::capture {
namespace {

TensorView view(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
  TensorView view;
  view.dims = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), view.sizes.begin());
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  return view;
}

constexpr records::Geometry kGeometry{2, 4, 4, 1, 10, 8, 8};

TEST(CacheUse, FirstPartOfALargerTensor) {
  // [2, 4, 64, 8][:, :, :10]
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {2048, 512, 8, 1}), -2, kGeometry),
            (records::CacheUse{.capacity = 128, .used = 20}));
  // [2, 64, 4, 8][:, :10].transpose(1, 2)
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {2048, 8, 32, 1}), -2, kGeometry),
            (records::CacheUse{.capacity = 128, .used = 20}));
}

TEST(CacheUse, WholeTensorsArePartsOfNone) {
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {320, 80, 8, 1}), -2, kGeometry), records::CacheUse{});
  // Transposed [2, 10, 4, 8], and the keys of packed [2, 10, 3, 4, 8].
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {320, 8, 32, 1}), -2, kGeometry), records::CacheUse{});
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {960, 8, 96, 1}), -2, kGeometry), records::CacheUse{});
  // Expanded from one kv head.
  EXPECT_EQ(use_of_view(view({2, 4, 10, 8}, {80, 0, 8, 1}), -2, kGeometry), records::CacheUse{});
}

TEST(CacheUse, BlocksOfATableCountOnce) {
  // Lengths 17 and 20 in blocks of 16; both hold block 3.
  const std::vector<std::int64_t> table = {3, 5, -1, 3, 7, -1};
  const std::vector<std::int64_t> lengths = {17, 20};
  EXPECT_EQ(
      use_of_blocks(table, 3, lengths, 16, 10),
      (records::CacheUse{.capacity = 160, .used = 16 + 1 + 4, .block_size = 16, .blocks_total = 10, .blocks_used = 3}));
}

TEST(CacheUse, TableThatWasNotReadTellsTheSizeAlone) {
  const std::vector<std::int64_t> lengths = {17, 20};
  EXPECT_EQ(use_of_blocks({}, 3, lengths, 16, 10),
            (records::CacheUse{.capacity = 160, .block_size = 16, .blocks_total = 10}));
  // Shorter than the lengths.
  const std::vector<std::int64_t> table = {3, 5};
  EXPECT_EQ(use_of_blocks(table, 1, lengths, 16, 10).blocks_used, -1);
}

}  // namespace
}  // namespace headscope::capture
