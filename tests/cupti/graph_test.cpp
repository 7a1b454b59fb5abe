// Which op captured the kernels that a CUDA graph replays.

#include <unistd.h>

#include <array>

#include "cupti/fixture.h"
#include "timeline/cupti/node_table.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Ids as CUPTI makes them: the graph's in the upper half.
constexpr std::uint64_t node(std::uint64_t graph, std::uint64_t local) { return graph << 32 | local; }

Situation with_graphs() {
  Situation situation;
  situation.graphs = true;
  return situation;
}

std::vector<std::uint64_t> captured_ops(const records::DeviceActivity& activity) {
  std::vector<std::uint64_t> ops;
  for (const records::DeviceSpan& span : activity.spans) {
    ops.push_back(span.capture.op);
  }
  return ops;
}

/// Graph `graph` is captured in two ops, one node each, and instantiated as `graph + 1`.
std::array<std::uint64_t, 2> capture(DeviceTimeline& clock, std::uint64_t graph) {
  std::array<std::uint64_t, 2> ops{};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i] = clock.open_op({});
    fake_cupti_capture_node(node(graph, i + 1));
    clock.close_op(ops[i]);
  }
  const std::array originals = {node(graph, 1), node(graph, 2)};
  const std::array copies = {node(graph + 1, 1), node(graph + 1, 2)};
  fake_cupti_instantiate(originals.data(), copies.data(), copies.size());
  return ops;
}

std::uint32_t replay(std::uint64_t graph) {
  const std::array nodes = {node(graph + 1, 1), node(graph + 1, 2)};
  return fake_cupti_replay(static_cast<std::uint32_t>(graph + 1), nodes.data(), nodes.size());
}

TEST_F(DeviceClock, ReplayedKernelsHaveTheOpThatCapturedThem) {
  start(with_graphs());
  const auto ops = capture(clock(), 100);
  replay(100);
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_THAT(captured_ops(activity), ElementsAre(ops[0], ops[1]));
  EXPECT_EQ(activity.spans[0].graph, 101U);
  EXPECT_EQ(activity.spans[0].graph_node, node(101, 1));
}

TEST_F(DeviceClock, OneLaunchServesAllKernelsOfAGraph) {
  start(with_graphs());
  capture(clock(), 200);
  const std::uint64_t launching = clock().open_op({});
  const std::uint32_t correlation = replay(200);
  clock().close_op(launching);
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.launches, SizeIs(1));
  EXPECT_TRUE(activity.launches[0].of_graph);
  EXPECT_EQ(activity.launches[0].op, launching);
  ASSERT_THAT(activity.spans, SizeIs(2));
  EXPECT_EQ(activity.spans[0].correlation, correlation);
  EXPECT_EQ(activity.spans[1].correlation, correlation);
}

TEST_F(DeviceClock, KernelsLaunchedOneByOneAreOfNoGraph) {
  start(with_graphs());
  launch_in_op();
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_FALSE(activity.launches[0].of_graph);
  EXPECT_EQ(activity.spans[0].capture.op, 0U);
}

TEST_F(DeviceClock, ACaptureOfOneSessionIsKnownInTheNext) {
  start(with_graphs());
  const auto ops = capture(clock(), 300);
  clock().stop();
  start();  // replay needs no subscriber
  EXPECT_FALSE(fake_cupti_state().subscribed);
  replay(300);
  EXPECT_THAT(captured_ops(stop_and_take()), ElementsAre(ops[0], ops[1]));
}

TEST_F(DeviceClock, BothInstancesOfAGraphHaveItsOps) {
  start(with_graphs());
  const auto ops = capture(clock(), 400);
  const std::array originals = {node(400, 1), node(400, 2)};
  const std::array copies = {node(499, 1), node(499, 2)};
  fake_cupti_instantiate(originals.data(), copies.data(), 2);
  replay(400);
  replay(498);
  EXPECT_THAT(captured_ops(stop_and_take()), ElementsAre(ops[0], ops[1], ops[0], ops[1]));
}

TEST_F(DeviceClock, NodesCapturedOutsideAnyOpHaveNone) {
  start(with_graphs());
  fake_cupti_capture_node(node(500, 1));
  const std::uint64_t original = node(500, 1);
  const std::uint64_t copy = node(501, 1);
  fake_cupti_instantiate(&original, &copy, 1);
  fake_cupti_replay(501, &copy, 1);
  EXPECT_THAT(captured_ops(stop_and_take()), ElementsAre(0U));
}

TEST_F(DeviceClock, GraphsCapturedBeforeTheFirstSessionAreLaunchesOnly) {
  capture(clock(), 600);
  start(with_graphs());
  replay(600);
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_THAT(captured_ops(activity), ElementsAre(0U, 0U));
  EXPECT_TRUE(activity.launches[0].of_graph);
}

TEST_F(DeviceClock, GraphsHoldTheSubscriberWhileTheClockRunsOnly) {
  start(with_graphs());
  EXPECT_TRUE(fake_cupti_state().subscribed);
  clock().stop();
  EXPECT_FALSE(fake_cupti_state().subscribed);
}

TEST_F(DeviceClock, CaptureOnTwoThreadsKeepsOpsApart) {
  start(with_graphs());
  std::array<std::array<std::uint64_t, 2>, 2> ops{};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] { ops[i] = capture(clock(), 700 + 10 * i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  replay(700);
  replay(710);
  EXPECT_THAT(captured_ops(stop_and_take()), ElementsAre(ops[0][0], ops[0][1], ops[1][0], ops[1][1]));
}

TEST_F(DeviceClock, NodesCapturedBetweenOpsKnowTheOneBefore) {
  start(with_graphs());
  const std::uint64_t op = clock().open_op({});
  clock().close_op(op);
  fake_cupti_capture_node(node(800, 1));
  const std::uint64_t original = node(800, 1);
  const std::uint64_t copy = node(801, 1);
  fake_cupti_instantiate(&original, &copy, 1);
  fake_cupti_replay(801, &copy, 1);
  const records::DeviceActivity activity = stop_and_take();
  const records::Capture expected{0, op, static_cast<std::uint64_t>(gettid())};
  EXPECT_EQ(activity.spans.at(0).capture, expected);
  EXPECT_THAT(activity.captures, ElementsAre(expected));
}

records::Capture in_op(std::uint64_t op) { return {op, op, 1}; }
std::uint64_t op_in(const NodeTable& table, std::uint64_t node) { return table.capture_of(node).op; }

TEST(NodeTable, CapturesComeOnceAndOnlyOfWork) {
  NodeTable table;
  table.created(1, in_op(11), true);
  table.created(2, in_op(12), false);
  EXPECT_THAT(table.take_created(), ElementsAre(in_op(11)));
  table.cloned(1, 3);
  EXPECT_THAT(table.take_created(), ElementsAre());
}

TEST(NodeTable, ANodeKeepsItsOpWhereAnotherIsMadeWithoutOne) {
  NodeTable table;
  table.created(1, in_op(11), true);
  table.created(1, {0, 20, 1}, true);
  EXPECT_EQ(op_in(table, 1), 11U);
}

TEST(NodeTable, GrowsAndForgetsNothing) {
  NodeTable table;
  constexpr std::uint64_t kNodes = 20'000;
  for (std::uint64_t i = 1; i <= kNodes; ++i) {
    table.created(node(i % 7, i), in_op(i), true);
  }
  for (std::uint64_t i = 1; i <= kNodes; ++i) {
    ASSERT_EQ(op_in(table, node(i % 7, i)), i);
  }
  EXPECT_EQ(table.size(), kNodes);
  EXPECT_EQ(op_in(table, node(8, 1)), 0U);
  EXPECT_EQ(table.lost(), 0U);
}

TEST(NodeTable, IgnoresNodesOfZero) {
  NodeTable table;
  table.created(0, in_op(5), true);
  table.cloned(0, 6);
  table.cloned(6, 0);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(op_in(table, 0), 0U);
}

TEST(NodeTable, ACopyOfAnUnknownNodeStaysUnknown) {
  NodeTable table;
  table.cloned(8, 9);
  EXPECT_EQ(op_in(table, 9), 0U);
  EXPECT_EQ(table.size(), 0U);
}

TEST(NodeTable, TheLatestCaptureOfANodeWins) {
  NodeTable table;
  table.created(9, in_op(1), true);
  table.created(9, in_op(2), true);
  EXPECT_EQ(op_in(table, 9), 2U);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace headscope::timeline::cupti
