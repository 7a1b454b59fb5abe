// CUPTI's clock, the host's two, and the way between them.

#include <array>

#include "cupti/fixture.h"
#include "timeline/cupti/clock_mapping.h"
#include "timeline/host_clock.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::SizeIs;

constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

ClockPoint same(std::int64_t realtime, std::int64_t offset = 0) {
  return {realtime, static_cast<std::uint64_t>(realtime + offset)};
}

TEST(ClockMapping, CuptisOwnClockIsTakenAsItIs) {
  const ClockMapping mapping(same(kBegin, 300), same(kBegin + kSecond, -200));
  EXPECT_TRUE(mapping.identity());
  EXPECT_EQ(mapping.to_realtime(static_cast<std::uint64_t>(kBegin + 5)), kBegin + 5);
}

TEST(ClockMapping, AnOffsetOfAMillisecondIsAnotherClock) {
  EXPECT_TRUE(ClockMapping(same(kBegin, 999'999), same(kBegin + kSecond, -999'999)).identity());
  EXPECT_FALSE(ClockMapping(same(kBegin, 1'000'000), same(kBegin + kSecond, 1'000'000)).identity());
}

TEST(ClockMapping, AnotherClockIsMappedByItsTwoEnds) {
  // 2.9 GHz: 29 ticks are 10 ns.
  const ClockMapping mapping({kBegin, 1'000}, {kBegin + kSecond, 1'000 + 2'900'000'000});
  EXPECT_EQ(mapping.to_realtime(1'000), kBegin);
  EXPECT_EQ(mapping.to_realtime(1'000 + 29), kBegin + 10);
  EXPECT_EQ(mapping.to_realtime(1'000 + 2'900'000'000), kBegin + kSecond);
  EXPECT_EQ(mapping.to_realtime(1'000 - 29), kBegin - 10);
  EXPECT_EQ(mapping.to_realtime(1'000 + 2), kBegin + 1) << "0.69 ns rounds";
}

TEST(ClockMapping, ADayOfTicksDoesNotOverflow) {
  constexpr std::int64_t kDay = 86'400 * kSecond;
  const std::uint64_t ticks = 4'000'000'000ULL * 86'400;
  const ClockMapping mapping({kBegin, 1ULL << 63}, {kBegin + kDay, (1ULL << 63) + ticks});
  EXPECT_EQ(mapping.to_realtime((1ULL << 63) + ticks / 2), kBegin + kDay / 2);
}

TEST(ClockMapping, AClockThatWasReplacedInBetweenIsUnknown) {
  const ClockMapping mapping(same(kBegin), {kBegin + kSecond, 12'345});
  EXPECT_FALSE(mapping.known());
  EXPECT_EQ(mapping.to_realtime(5), std::nullopt);
}

TEST(ClockMapping, AClockThatStandsStillIsUnknown) {
  EXPECT_FALSE(ClockMapping({kBegin, 500}, {kBegin + kSecond, 500}).known());
}

TEST(TightestPoint, TakesTheReadingWithTheNarrowestBracket) {
  // Brackets of 100, 20 and 50 ns, and six of 100.
  std::vector<std::int64_t> host = {0, 100, 1'000, 1'020, 2'000, 2'050};
  for (std::int64_t i = 3; i < 9; ++i) {
    host.push_back(1'000 * i);
    host.push_back(1'000 * i + 100);
  }
  std::size_t at = 0;
  std::uint64_t ticks = 7;
  const auto point =
      tightest_point([&] { return host[at++]; }, [&]() -> std::optional<std::uint64_t> { return ticks++; });
  ASSERT_TRUE(point);
  EXPECT_EQ(point->realtime_ns, 1'010);
  EXPECT_EQ(point->ticks, 8U);
}

TEST(TightestPoint, ClockSetBackInBetweenIsNoBracket) {
  std::int64_t time = 1'000;
  int reads = 0;
  const auto point = tightest_point([&] { return ++reads == 2 ? time - 900 : time += 10; },
                                    []() -> std::optional<std::uint64_t> { return 1; });
  ASSERT_TRUE(point);
  EXPECT_GT(point->realtime_ns, 1'000);
}

TEST(TightestPoint, AClockThatFailsGivesNone) {
  EXPECT_FALSE(
      tightest_point([] { return std::int64_t{0}; }, []() -> std::optional<std::uint64_t> { return std::nullopt; }));
}

TEST(RealtimeToMonotonic, TheLeadMovesEvenlyFromOneEndToTheOther) {
  const RealtimeToMonotonic map{{1'000'000, 500}, {2'000'000, 700}};
  EXPECT_EQ(map(1'000'000), 1'000'000 - 500);
  EXPECT_EQ(map(1'500'000), 1'500'000 - 600);
  EXPECT_EQ(map(2'000'000), 2'000'000 - 700);
  EXPECT_EQ(map(900'000), 900'000 - 500);
  EXPECT_EQ(map(2'100'000), 2'100'000 - 700);
}

TEST(RealtimeToMonotonic, TwoPointsAtOneTimeHaveOneLead) {
  const RealtimeToMonotonic map{{1'000, 500}, {1'000, 500}};
  EXPECT_EQ(map(1'000), 500);
}

TEST(HostClocks, TheirDifferenceIsReadToAMicrosecond) {
  const HostClockPoint point = read_host_clocks();
  const std::int64_t before = base::monotonic_ns();
  const std::int64_t mapped = realtime_ns() - point.lead_ns;
  const std::int64_t after = base::monotonic_ns();
  EXPECT_GE(mapped, before - 1'000);
  EXPECT_LE(mapped, after + 1'000);
}

TEST_F(DeviceClock, AnotherClientsClockIsMappedToTheCalls) {
  fake_cupti_set_clock(29, 10, 123'456'789);
  start();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::int64_t before = base::monotonic_ns();
  FakeLaunch what;
  what.start = fake_cupti_now();
  what.end = what.start + 29'000'000;  // 10 ms
  launch(what);
  const std::int64_t after = base::monotonic_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const records::DeviceActivity activity = stop_and_take();
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_EQ(activity.untimed, 0U);
  constexpr std::int64_t kSlackNs = 100'000;
  EXPECT_GT(activity.spans[0].start_ns, before - kSlackNs);
  EXPECT_LT(activity.spans[0].start_ns, after + kSlackNs);
  EXPECT_NEAR(static_cast<double>(activity.spans[0].end_ns - activity.spans[0].start_ns), 10e6, 20e3);
}

TEST_F(DeviceClock, AClockReplacedDuringTheSessionLeavesSpansUntimed) {
  start();
  launch();
  fake_cupti_set_clock(3, 1, 1'000);
  const records::DeviceActivity activity = stop_and_take();
  EXPECT_EQ(activity.untimed, 1U);
  ASSERT_THAT(activity.spans, SizeIs(1));
  EXPECT_FALSE(activity.spans[0].timed());
  EXPECT_THAT(clock().status().warnings, ::testing::ElementsAre(::testing::HasSubstr("clock changed")));
}

TEST_F(DeviceClock, TimesTakenDuringASessionAndAfterItAreOfOneClock) {
  start();
  launch();
  clock().flush();
  const records::DeviceActivity first = clock().take();
  launch();
  const records::DeviceActivity second = stop_and_take();
  ASSERT_THAT(first.spans, SizeIs(1));
  ASSERT_THAT(second.spans, SizeIs(1));
  EXPECT_GT(second.spans[0].start_ns, first.spans[0].start_ns);
  EXPECT_LT(second.spans[0].start_ns, first.spans[0].start_ns + kSecond);
}

TEST_F(DeviceClock, AClockThatFailsAtTheEndIsTrustedIfItWasTheHosts) {
  start();
  launch();
  fake_cupti_fail("cuptiGetTimestamp", 999, 0);
  EXPECT_EQ(stop_and_take().untimed, 0U);
}

}  // namespace
}  // namespace headscope::timeline::cupti
