#include "cupti/fixture.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST_F(DeviceClock, StartsWithAWorkingDriver) {
  const Status status = start();
  EXPECT_TRUE(status.enabled()) << status.text;
  EXPECT_THAT(status.warnings, ::testing::IsEmpty());
}

TEST_F(DeviceClock, KernelInsideAnOpHasTheOpsId) {
  start();
  const std::uint64_t op = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
}

TEST_F(DeviceClock, KernelOutsideAnyOpHasNone) {
  start();
  launch_in_op();
  const std::uint32_t outside = launch();
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.launches, SizeIs(2));
  EXPECT_EQ(op_of(activity, outside), 0U);
}

TEST_F(DeviceClock, KernelBelongsToTheInnermostOp) {
  start();
  const std::uint64_t outer = clock().open_op({});
  launch();
  const std::uint64_t inner = clock().open_op({});
  launch();
  clock().close_op(inner);
  launch();
  clock().close_op(outer);
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(outer, inner, outer));
}

TEST_F(DeviceClock, EveryFieldOfAKernelIsKept) {
  start();
  FakeLaunch what;
  what.name = "flash_fwd";
  what.device = 3;
  what.context = 5;
  what.stream = 11;
  what.grid[0] = 16;
  what.grid[1] = 2;
  what.block[0] = 256;
  const std::uint32_t correlation = launch(what);
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  const records::DeviceSpan& span = activity.spans.front();
  EXPECT_EQ(span.kind, records::DeviceSpan::Kind::kKernel);
  EXPECT_EQ(span.name, "flash_fwd");
  EXPECT_EQ(span.device, (records::Device{records::DeviceType::kCuda, 3}));
  EXPECT_EQ(span.context, 5U);
  EXPECT_EQ(span.stream, 11U);
  EXPECT_EQ(span.correlation, correlation);
  EXPECT_THAT(span.grid, ElementsAre(16, 2, 1));
  EXPECT_THAT(span.block, ElementsAre(256, 1, 1));
}

TEST_F(DeviceClock, TimesAreInTheCallsClock) {
  start();
  const std::int64_t before = base::monotonic_ns();
  launch();
  const std::int64_t after = base::monotonic_ns();
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  constexpr std::int64_t kSlackNs = 1'000'000;
  EXPECT_GT(activity.spans[0].start_ns, before - kSlackNs);
  EXPECT_LT(activity.spans[0].start_ns, after + kSlackNs);
  EXPECT_EQ(activity.spans[0].end_ns - activity.spans[0].start_ns, 1000);
  EXPECT_GT(activity.launches[0].start_ns, before - kSlackNs);
  EXPECT_EQ(activity.launches[0].end_ns - activity.launches[0].start_ns, 100);
}

TEST_F(DeviceClock, CopiesAndFillsAreSpansWithBytes) {
  start();
  fake_cupti_transfer(1, 2, 4096);
  fake_cupti_transfer(2, 0, 512);
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(2));
  EXPECT_EQ(activity.spans[0].kind, records::DeviceSpan::Kind::kMemcpy);
  EXPECT_EQ(activity.spans[0].bytes, 4096);
  EXPECT_EQ(activity.spans[0].name, "Memcpy DtoH");
  EXPECT_EQ(activity.spans[1].kind, records::DeviceSpan::Kind::kMemset);
  EXPECT_EQ(activity.spans[1].bytes, 512);
}

TEST_F(DeviceClock, CallsThatLaunchNothingFallOut) {
  start();
  fake_cupti_call();
  launch();
  EXPECT_THAT(stop_and_take().launches, SizeIs(1));
}

TEST_F(DeviceClock, LaunchesOfTheDriverApiHaveOpsToo) {
  start();
  FakeLaunch what;
  what.by_driver = true;
  const std::uint64_t op = launch_in_op(what);
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
}

TEST_F(DeviceClock, NothingIsTracedAfterStop) {
  start();
  clock().stop();
  launch();
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
  EXPECT_EQ(clock().open_op({}), 0U);
  EXPECT_THAT(clock().take().spans, SizeIs(0));
}

}  // namespace
}  // namespace headscope::timeline::cupti
