#include "capture/open_forwards.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace headscope::capture {
namespace {

using Of = Repetition::Of;

const records::OpInfo kOp{"aten::some_attention", "some", records::Kernel::kFused, true};

records::AttentionCall attention(std::int64_t length = 16) {
  records::AttentionCall result;
  result.op = &kOp;
  result.geometry = {1, 2, 2, length, length, 8, 8};
  return result;
}

/// A program on one thread; its nodes are numbered as it says.
class OpenForwardsTest : public ::testing::Test {
 protected:
  void hooked(std::uint64_t id, std::uint64_t node, std::vector<std::uintptr_t> hooks, std::int64_t length = 16) {
    ForwardPlace place{.thread = kThread, .first_node = node, .depth = hooks.size()};
    for (std::size_t i = 0; i < hooks.size() && i < ForwardPlace::kLevels; ++i) {
      place.hooks[i] = hooks[i];
    }
    forwards_->open(id, attention(length), place);
  }
  void without_gradients(std::uint64_t id, std::uint64_t node) {
    forwards_->open(id, attention(), {.thread = kThread, .first_node = node, .without_gradients = true});
  }
  /// 0: none.
  std::uint64_t take(Of of, std::uint64_t node, std::int64_t graph_task = 1, std::size_t depth = 1,
                     std::int64_t length = 16) {
    return take({.of = of, .thread = kThread, .node = node, .graph_task = graph_task, .hooks = {900}, .depth = depth},
                length);
  }
  std::uint64_t take(const Repetition& repetition, std::int64_t length = 16) {
    const auto found = forwards_->take(attention(length), repetition);
    return found ? found->call_id : 0;
  }

  static constexpr std::uint64_t kThread = 3;
  std::unique_ptr<OpenForwards> forwards_ = std::make_unique<OpenForwards>();
};

TEST_F(OpenForwardsTest, SegmentIsRepeatedInItsOwnOrder) {
  hooked(1, 10, {100});
  hooked(2, 20, {100});
  EXPECT_EQ(take(Of::kSegment, 25), 1U);
  EXPECT_EQ(take(Of::kSegment, 25), 2U);
  EXPECT_EQ(take(Of::kSegment, 25), 0U);
}

TEST_F(OpenForwardsTest, SegmentIsThatOfTheNode) {
  hooked(1, 10, {100});
  hooked(2, 20, {200});
  EXPECT_EQ(take(Of::kSegment, 15), 1U);
  EXPECT_EQ(take(Of::kSegment, 20), 2U);
}

TEST_F(OpenForwardsTest, NodeBeforeAnySegmentRepeatsNothing) {
  hooked(1, 10, {100});
  EXPECT_EQ(take(Of::kSegment, 9), 0U);
}

TEST_F(OpenForwardsTest, AnotherGeometryRepeatsNothing) {
  hooked(1, 10, {100}, 16);
  EXPECT_EQ(take(Of::kSegment, 15, 1, 1, 17), 0U);
}

TEST_F(OpenForwardsTest, SecondBackwardOfARetainedGraphRepeatsTheSameForwards) {
  hooked(1, 10, {100});
  hooked(2, 20, {100});
  take(Of::kSegment, 25, 1);
  take(Of::kSegment, 25, 1);
  EXPECT_EQ(take(Of::kSegment, 25, 2), 1U);
  EXPECT_EQ(take(Of::kSegment, 25, 2), 2U);
}

TEST_F(OpenForwardsTest, HookWhoseAddressCameBackIsAnotherSegment) {
  hooked(1, 10, {100});
  take(Of::kSegment, 15, 1);
  hooked(2, 20, {100});
  EXPECT_EQ(take(Of::kSegment, 25, 2), 2U);
  EXPECT_EQ(take(Of::kSegment, 25, 2), 0U);
}

// checkpoint(outer: 1, checkpoint(inner: 2)): the outer segment runs again whole, then the inner one.
TEST_F(OpenForwardsTest, InnerSegmentIsRepeatedOnceForEachSegmentAroundIt) {
  hooked(1, 10, {100});
  hooked(2, 20, {100, 200});
  EXPECT_EQ(take(Of::kSegment, 25, 1, 1), 1U);
  EXPECT_EQ(take(Of::kSegment, 25, 1, 2), 2U);
  EXPECT_EQ(take(Of::kSegment, 25, 1, 1), 2U);
  EXPECT_EQ(take(Of::kSegment, 25, 1, 1), 0U);
}

// checkpoint(outer: checkpoint(inner: 1), checkpoint(inner: 2)): a node of the second starts all.
TEST_F(OpenForwardsTest, OuterSegmentBeginsWithItsFirstInnerOne) {
  hooked(1, 10, {100, 200});
  hooked(2, 20, {100, 300});
  EXPECT_EQ(take(Of::kSegment, 25, 1, 2), 1U);
  EXPECT_EQ(take(Of::kSegment, 25, 1, 2), 2U);
  EXPECT_EQ(take(Of::kSegment, 25, 1, 1), 2U);
  EXPECT_EQ(take(Of::kSegment, 15, 1, 1), 1U);
}

// with save_on_cpu(): forward and backward.
TEST_F(OpenForwardsTest, HooksAroundForwardAndBackwardAreNoSegment) {
  hooked(1, 10, {100});
  EXPECT_EQ(take({.thread = kThread, .node = 15, .graph_task = 1, .hooks = {100}, .depth = 1}), 0U);
}

TEST_F(OpenForwardsTest, SegmentInsideSharedHooksIsFoundInThem) {
  hooked(1, 10, {100, 200});
  hooked(2, 20, {100, 300});
  EXPECT_EQ(take({.thread = kThread, .node = 25, .graph_task = 1, .hooks = {100, 900}, .depth = 2}), 2U);
}

TEST_F(OpenForwardsTest, InterruptedRepetitionIsOfTheInnermostSegment) {
  hooked(1, 10, {100, 200});
  hooked(2, 20, {100, 300});
  EXPECT_EQ(take({.thread = kThread, .node = 25, .graph_task = 1, .interrupted = true}), 2U);
}

TEST_F(OpenForwardsTest, NodeWithoutGradientsInsideRepeatsWhatRanAfterItFirst) {
  without_gradients(1, 10);
  without_gradients(2, 10);
  without_gradients(3, 11);
  EXPECT_EQ(take(Of::kSinceNode, 11), 3U);
  EXPECT_EQ(take(Of::kSinceNode, 10), 1U);
  EXPECT_EQ(take(Of::kSinceNode, 10), 2U);
  EXPECT_EQ(take(Of::kSinceNode, 10), 0U);
}

// checkpoint(outer, hooked: checkpoint(inner, without gradients)): a node of the inner one starts the outer one.
TEST_F(OpenForwardsTest, NodeInASegmentThatRunsAgainRepeatsNothingOfItsOwn) {
  forwards_->open(1, attention(),
                  {.thread = kThread, .first_node = 10, .without_gradients = true, .hooks = {100}, .depth = 1});
  EXPECT_EQ(take(Of::kSinceNode, 10), 0U);
  EXPECT_EQ(take(Of::kSegment, 10), 1U);
}

// As above, and the node's own backward pass repeats what the outer segment ran again.
TEST_F(OpenForwardsTest, RepetitionOfTheSamePassIsNotWhatANodeRepeats) {
  forwards_->open(1, attention(),
                  {.thread = kThread, .first_node = 10, .without_gradients = true, .hooks = {100}, .depth = 1});
  forwards_->open(
      2, attention(),
      {.thread = kThread, .first_node = 20, .without_gradients = true, .hooks = {900}, .depth = 1, .graph_task = 1});
  EXPECT_EQ(take({.of = Of::kSinceNode, .thread = kThread, .node = 10, .graph_task = 1}), 1U);
  EXPECT_EQ(take({.of = Of::kSinceNode, .thread = kThread, .node = 10, .graph_task = 1}), 0U);
}

// The same call is repeated with the hooked segment around it, then without.
TEST_F(OpenForwardsTest, CallIsRepeatedWithItsSegmentAndByItself) {
  forwards_->open(1, attention(),
                  {.thread = kThread, .first_node = 10, .without_gradients = true, .hooks = {100}, .depth = 1});
  EXPECT_EQ(take(Of::kSegment, 10), 1U);
  EXPECT_EQ(take({.of = Of::kSinceNode, .thread = kThread, .node = 10, .graph_task = 1}), 1U);
}

TEST_F(OpenForwardsTest, RepetitionOfAnEarlierPassIsAnotherSegment) {
  forwards_->open(1, attention(), {.thread = kThread, .first_node = 10, .hooks = {100}, .depth = 1, .graph_task = 7});
  hooked(2, 20, {100});
  EXPECT_EQ(take(Of::kSegment, 25, 8), 2U);
}

TEST_F(OpenForwardsTest, CompiledBackwardRepeatsItsForwardsFromTheLast) {
  without_gradients(1, 10);
  without_gradients(2, 10);
  without_gradients(3, 11);
  EXPECT_EQ(take(Of::kNode, 10), 2U);
  EXPECT_EQ(take(Of::kNode, 10), 1U);
  EXPECT_EQ(take(Of::kNode, 10), 0U);
}

TEST_F(OpenForwardsTest, ForwardsOfAnotherThreadAreNotRepeated) {
  forwards_->open(1, attention(), {.thread = kThread + 8, .first_node = 10, .without_gradients = true});
  EXPECT_EQ(take(Of::kSinceNode, 10), 0U);
}

TEST_F(OpenForwardsTest, OldestAreForgottenWhenMoreAreOpenThanRemembered) {
  for (std::uint64_t id = 1; id <= 1100; ++id) {
    without_gradients(id, 10);
  }
  EXPECT_EQ(take(Of::kSinceNode, 10), 77U);
}

}  // namespace
}  // namespace headscope::capture
