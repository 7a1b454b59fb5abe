#include "capture/fused_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/fallback.h"
#include "headscope/error.h"

namespace headscope::capture {
namespace {

TensorView tensor(std::vector<std::int64_t> sizes, StorageId storage) {
  TensorView view;
  view.storage = storage;
  view.dims = static_cast<int>(sizes.size());
  view.element_size = 4;
  view.dtype = records::DType::kFloat32;
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    view.sizes[axis] = sizes[axis];
    view.strides[axis] = stride;
    stride *= sizes[axis];
  }
  return view;
}

FusedArguments arguments(std::vector<std::int64_t> q, std::vector<std::int64_t> k, std::vector<std::int64_t> v) {
  FusedArguments result;
  result.q = tensor(std::move(q), 1);
  result.k = tensor(std::move(k), 2);
  result.v = tensor(std::move(v), 3);
  return result;
}

TEST(FusedCall, BhsdReadsHeadsBeforeSequence) {
  const auto geometry = geometry_of(arguments({2, 8, 5, 16}, {2, 4, 7, 16}, {2, 4, 7, 12}), Layout::kBHSD);
  EXPECT_EQ(geometry, (records::Geometry{2, 8, 4, 5, 7, 16, 12}));
}

TEST(FusedCall, BshdReadsSequenceBeforeHeads) {
  const auto geometry = geometry_of(arguments({2, 5, 8, 16}, {2, 7, 4, 16}, {2, 7, 4, 16}), Layout::kBSHD);
  EXPECT_EQ(geometry, (records::Geometry{2, 8, 4, 5, 7, 16, 16}));
}

TEST(FusedCall, ThreeAxesOfSdpaAreABatchOfOneHead) {
  const auto geometry = geometry_of(arguments({6, 5, 16}, {6, 7, 16}, {6, 7, 16}), Layout::kBHSD);
  EXPECT_EQ(geometry, (records::Geometry{6, 1, 1, 5, 7, 16, 16}));
}

TEST(FusedCall, FiveAxesMergeTheLeadingOnesIntoTheBatch) {
  const auto geometry = geometry_of(arguments({2, 3, 4, 5, 16}, {2, 3, 4, 7, 16}, {2, 3, 4, 7, 16}), Layout::kBHSD);
  EXPECT_EQ(geometry, (records::Geometry{6, 4, 4, 5, 7, 16, 16}));
}

TEST(FusedCall, PackedSequencesTakeBatchAndLongestFromTheLengths) {
  FusedArguments packed = arguments({192, 8, 64}, {192, 8, 64}, {192, 8, 64});
  packed.varlen = true;
  packed.sequences = 2;
  packed.lengths = std::make_shared<const records::Lengths>(records::Lengths{{128, 64}, {128, 64}});
  EXPECT_EQ(geometry_of(packed, Layout::kBSHD), (records::Geometry{2, 8, 8, 128, 128, 64, 64}));
}

TEST(FusedCall, PackedSequencesWithoutLengthsAreMarked) {
  FusedArguments packed = arguments({192, 8, 64}, {192, 8, 64}, {192, 8, 64});
  packed.varlen = true;
  packed.sequences = 2;
  OpEntry entry;
  entry.layout = Layout::kBSHD;
  EXPECT_TRUE(make_fused_call(entry, packed)->lengths_unknown);
}

TEST(FusedCall, PageTableGivesTheKeyLength) {
  FusedArguments paged = arguments({2, 1, 8, 64}, {100, 16, 2, 64}, {100, 16, 2, 64});
  paged.paged = true;
  paged.paged_width = 4 * 16;
  EXPECT_EQ(geometry_of(paged, Layout::kBSHD), (records::Geometry{2, 8, 2, 1, 64, 64, 64}));
}

TEST(FusedCall, CustomMaskTypeTwoIsCausalFromTheLowerRight) {
  FusedArguments efficient = arguments({1, 4, 2, 8}, {1, 10, 2, 8}, {1, 10, 2, 8});
  efficient.mask_type = 2;
  OpEntry entry;
  entry.layout = Layout::kBSHD;
  EXPECT_EQ(make_fused_call(entry, efficient)->causal, records::Causal::kLowerRight);
}

TEST(FusedCall, OneTensorAsQueryKeyAndValueIsSharedWithBoth) {
  FusedArguments self = arguments({1, 2, 5, 8}, {1, 2, 5, 8}, {1, 2, 5, 8});
  self.k = self.q;
  self.v = self.q;
  const auto call = make_fused_call(OpEntry{}, self);
  EXPECT_EQ(call->q_overlap_bytes, 1U * 2 * 5 * 8 * 4);
  EXPECT_EQ(call->kv_overlap_bytes, call->q_overlap_bytes);
}

SdpaArguments sdpa(std::vector<std::int64_t> q, std::vector<std::int64_t> v) {
  SdpaArguments result;
  result.q = tensor(q, 1);
  result.k = tensor(q, 2);
  result.v = tensor(std::move(v), 3);
  return result;
}

TEST(MathReason, OtherHeadDimOfTheValues) {
  EXPECT_EQ(math_reason(sdpa({1, 4, 8, 24}, {1, 4, 8, 12})), records::FallbackReason::kHeadDims);
}

TEST(MathReason, DropoutComesBeforeHeadDims) {
  SdpaArguments arguments = sdpa({1, 4, 8, 24}, {1, 4, 8, 12});
  arguments.has_dropout = true;
  EXPECT_EQ(math_reason(arguments), records::FallbackReason::kDropout);
}

TEST(MathReason, ThreeAxes) { EXPECT_EQ(math_reason(sdpa({4, 8, 16}, {4, 8, 16})), records::FallbackReason::kRank); }

TEST(MathReason, EmptySequence) {
  EXPECT_EQ(math_reason(sdpa({1, 4, 0, 16}, {1, 4, 0, 16})), records::FallbackReason::kEmpty);
}

TEST(MathReason, NothingExplainsIt) {
  EXPECT_EQ(math_reason(sdpa({1, 4, 8, 16}, {1, 4, 8, 16})), records::FallbackReason::kUnknown);
}

TEST(OpTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const OpEntry& entry : known_ops()) {
    EXPECT_TRUE(names.insert(entry.info.name).second) << entry.info.name;
  }
}

TEST(OpTable, SpecWithoutNamespaceIsRefused) {
  AttentionOpSpec spec;
  spec.op = "attention";
  spec.variant = "mine";
  EXPECT_THROW(entry_of(spec), Error);
}

TEST(OpTable, SpecNamesOnlyTheArgumentsThatItGives) {
  AttentionOpSpec spec;
  spec.op = "my_lib::attention";
  spec.variant = "mine";
  spec.query = "x";
  const OpEntry entry = entry_of(spec);
  EXPECT_EQ(argument_names(entry, Arg::kQuery), std::vector<std::string_view>{"x"});
  EXPECT_TRUE(argument_names(entry, Arg::kMask).empty());
}

}  // namespace
}  // namespace headscope::capture
