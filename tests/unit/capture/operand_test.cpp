#include "capture/operand.h"

#include <gtest/gtest.h>

#include <set>

#include "eager_program.h"

namespace headscope::capture {
namespace {

using test::strided;
using test::t;

/// Addresses that both views touch, one by one.
std::uint64_t brute_force_overlap(const TensorView& k, const TensorView& v) {
  const auto addresses = [](const TensorView& view) {
    std::set<std::int64_t> found;
    for (std::int64_t index = 0; index < view.elements(); ++index) {
      std::int64_t rest = index;
      std::int64_t address = view.offset;
      for (int axis = view.dims - 1; axis >= 0; --axis) {
        address += rest % view.size(axis) * view.strides[static_cast<std::size_t>(axis)];
        rest /= view.size(axis);
      }
      found.insert(address);
    }
    return found;
  };
  const auto in_k = addresses(k);
  std::uint64_t shared = 0;
  for (const std::int64_t address : addresses(v)) {
    shared += in_k.count(address);
  }
  return shared * 4;
}

TEST(Operand, ContiguousTensorTouchesAllItsElements) {
  EXPECT_EQ(operand_of(t({2, 3, 5}, 1)), (records::Operand{30, 4}));
}

TEST(Operand, BroadcastAxisCountsOnce) {
  // K of two heads expanded to six: [2, 3, 7, 4] with stride 0 along the group.
  EXPECT_EQ(operand_of(strided({2, 3, 7, 4}, {28, 0, 4, 1}, 1)).elements, 56U);
}

TEST(Operand, TensorOfUnknownSizesHasNoElements) {
  TensorView view;
  view.dims = -1;
  EXPECT_EQ(operand_of(view).elements, 0U);
}

TEST(Overlap, DifferentStoragesShareNothing) { EXPECT_EQ(overlap_bytes(t({2, 3, 4}, 1), t({2, 3, 4}, 2)), 0U); }

TEST(Overlap, KeysUsedAsValuesShareAll) { EXPECT_EQ(overlap_bytes(t({2, 3, 4}, 1), t({2, 3, 4}, 1)), 96U); }

TEST(Overlap, ValuesInTheFirstColumnsOfTheKeysShareThese) {
  // MLA: keys of 576, of which the first 512 are the values.
  const auto k = strided({1, 10, 576}, {5760, 576, 1}, 1);
  const auto v = strided({1, 10, 512}, {5760, 576, 1}, 1);
  EXPECT_EQ(overlap_bytes(k, v), 10U * 512 * 4);
}

TEST(Overlap, PackedKeysAndValuesAreInterleavedButDisjoint) {
  // [S, 3, H·D] with H·D = 8: K at 8, V at 16 of each row of 24.
  EXPECT_EQ(overlap_bytes(strided({2, 5, 4}, {4, 24, 1}, 1, 8), strided({2, 5, 4}, {4, 24, 1}, 1, 16)), 0U);
}

TEST(Overlap, PackedKeysAndValuesOfOtherStridesAreBoundedByTheSmaller) {
  EXPECT_EQ(overlap_bytes(strided({2, 5, 4}, {4, 24, 1}, 1, 8), strided({1, 2, 3}, {6, 3, 1}, 1, 16)), 6U * 4);
}

TEST(Overlap, DisjointRangesOfOtherStridesShareNothing) {
  EXPECT_EQ(overlap_bytes(t({1, 2, 3}, 1), strided({1, 3, 2}, {6, 2, 1}, 1, 6)), 0U);
}

TEST(Overlap, BroadcastGroupAxisIsNoObstacle) {
  const auto k = strided({2, 3, 7, 4}, {28, 0, 4, 1}, 1);
  EXPECT_EQ(overlap_bytes(k, k), 56U * 4);
}

TEST(Overlap, AgreesWithBruteForceForEveryShift) {
  for (std::int64_t shift = 0; shift < 80; ++shift) {
    const auto k = strided({3, 4, 5}, {30, 6, 1}, 1, 40);
    const auto v = strided({2, 5, 3}, {30, 6, 1}, 1, shift);
    ASSERT_EQ(overlap_bytes(k, v), brute_force_overlap(k, v)) << "shift " << shift;
  }
}

}  // namespace
}  // namespace headscope::capture
