#include "capture/mask_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace headscope::capture {
namespace {

TensorView contiguous(std::vector<std::int64_t> sizes) {
  TensorView view;
  view.dims = static_cast<int>(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    view.sizes[axis] = sizes[axis];
    view.strides[axis] = stride;
    stride *= sizes[axis];
  }
  return view;
}

records::Geometry scores(std::int64_t batch, std::int64_t heads, std::int64_t q, std::int64_t k) {
  return {batch, heads, heads, q, k, 8, 8};
}

MaskData bool_mask(const std::vector<std::uint8_t>& data, std::vector<std::int64_t> sizes) {
  return {data.data(), MaskType::kBool, false, contiguous(std::move(sizes))};
}

TEST(MaskScan, CausalBoolMaskAdmitsTheLowerTriangle) {
  const std::vector<std::uint8_t> data{1, 0, 0, 1, 1, 0, 1, 1, 1};
  const auto count = scan_mask(bool_mask(data, {3, 3}), scores(2, 4, 3, 3));
  ASSERT_TRUE(count);
  EXPECT_EQ(count->pairs, 6U * 8U);  // 1 + 2 + 3, for 2 × 4 sequences and heads
  EXPECT_TRUE(count->lower_triangle);
  EXPECT_EQ(count->used_keys, 3);
  EXPECT_TRUE(count->pairs_per_head.empty());
}

TEST(MaskScan, PaddingMaskIsRepeatedForEveryQueryAndHead) {
  // Two sequences of 4 keys, the second padded to 2: (4 + 2) keys × 5 queries × 3 heads.
  const std::vector<std::uint8_t> data{1, 1, 1, 1, 1, 1, 0, 0};
  const auto count = scan_mask(bool_mask(data, {2, 1, 1, 4}), scores(2, 3, 5, 4));
  ASSERT_TRUE(count);
  EXPECT_EQ(count->pairs, 90U);
  EXPECT_FALSE(count->lower_triangle);
}

TEST(MaskScan, MaskWithHeadsCountsEachHead) {
  const std::vector<std::uint8_t> data{1, 1, 1, 1, 1, 0, 0, 1};
  const auto count = scan_mask(bool_mask(data, {1, 2, 2, 2}), scores(3, 2, 2, 2));
  ASSERT_TRUE(count);
  EXPECT_EQ(count->pairs_per_head, (std::vector<std::uint64_t>{12, 6}));
  EXPECT_EQ(count->pairs, 18U);
}

TEST(MaskScan, TrueMeansMaskedForMaskedFill) {
  const std::vector<std::uint8_t> data{0, 1, 0, 0};
  MaskData mask = bool_mask(data, {2, 2});
  mask.true_is_masked = true;
  EXPECT_EQ(scan_mask(mask, scores(1, 1, 2, 2))->pairs, 3U);
}

TEST(MaskScan, FloatMaskIsMaskedFromHalfTheLowestValueOn) {
  const float lowest = std::numeric_limits<float>::lowest();
  const std::vector<float> data{0.0F, -1e9F, lowest / 4, lowest / 2, lowest, -std::numeric_limits<float>::infinity()};
  const MaskData mask{data.data(), MaskType::kFloat32, false, contiguous({1, 6})};
  EXPECT_EQ(scan_mask(mask, scores(1, 1, 1, 6))->pairs, 3U);
}

TEST(MaskScan, BFloat16LowestAndInfinityAreMaskedAndNanIsNot) {
  // 0, −1, −1e38 (0xFE96), lowest ÷ 2 (0xFEFF), lowest (0xFF7F), −inf (0xFF80), NaN (0xFFC0)
  const std::vector<std::uint16_t> data{0x0000, 0xBF80, 0xFE96, 0xFEFF, 0xFF7F, 0xFF80, 0xFFC0};
  const MaskData mask{data.data(), MaskType::kBFloat16, false, contiguous({1, 7})};
  EXPECT_EQ(scan_mask(mask, scores(1, 1, 1, 7))->pairs, 4U);
}

TEST(MaskScan, HalfLowestAndInfinityAreMasked) {
  // 0, −10000 (0xF0E2), −32752 (0xF7FF), −65504 (0xFBFF), −inf (0xFC00)
  const std::vector<std::uint16_t> data{0x0000, 0xF0E2, 0xF7FF, 0xFBFF, 0xFC00};
  const MaskData mask{data.data(), MaskType::kFloat16, false, contiguous({1, 5})};
  EXPECT_EQ(scan_mask(mask, scores(1, 1, 1, 5))->pairs, 2U);
}

TEST(MaskScan, SinkColumnIsNotCounted) {
  const std::vector<std::uint8_t> data{1, 0, 1, 1, 1, 1};
  EXPECT_EQ(scan_mask(bool_mask(data, {2, 3}), scores(1, 1, 2, 2))->pairs, 3U);
}

TEST(MaskScan, ExpandedMaskReadsEachElementOnce) {
  TensorView view = contiguous({4, 2, 3, 3});
  view.strides = {0, 0, 3, 1};
  EXPECT_EQ(scanned_elements(view), 9);
}

TEST(MaskScan, UsedKeysEndAtTheLastAdmittedColumn) {
  const std::vector<std::uint8_t> data{1, 1, 0, 0, 0, 1, 1, 1, 0, 0};
  EXPECT_EQ(scan_mask(bool_mask(data, {2, 5}), scores(1, 1, 2, 5))->used_keys, 3);
}

TEST(MaskScan, ShapesThatDoNotBroadcastAreRefused) {
  const std::vector<std::uint8_t> data(12, 1);
  EXPECT_FALSE(scan_mask(bool_mask(data, {3, 4}), scores(1, 1, 2, 4)));
}

TEST(MaskScan, StridedMasksAgreeWithBruteForce) {
  std::mt19937 random(7);
  std::vector<std::uint8_t> data(2 * 3 * 5 * 12);
  for (std::uint8_t& element : data) {
    element = random() % 2;
  }
  TensorView view = contiguous({2, 3, 5, 12});
  view.sizes[3] = 6;
  view.strides[3] = 2;
  std::vector<std::uint64_t> expected(3, 0);
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      for (int i = 0; i < 5; ++i) {
        for (int j = 0; j < 6; ++j) {
          expected[static_cast<std::size_t>(h)] += data[static_cast<std::size_t>(((b * 3 + h) * 5 + i) * 12 + 2 * j)];
        }
      }
    }
  }
  EXPECT_EQ(scan_mask({data.data(), MaskType::kBool, false, view}, scores(2, 3, 5, 6))->pairs_per_head, expected);
}

}  // namespace
}  // namespace headscope::capture
