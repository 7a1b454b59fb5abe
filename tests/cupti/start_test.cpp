// When the device clock runs, and what it says when it does not.

#include <array>

#include "cupti/fixture.h"
#include "timeline/cupti/arbiter.h"
#include "timeline/cupti/driver_gate.h"

namespace headscope::timeline::cupti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DeviceClock, SaysSoBeforeTheFirstStart) {
  EXPECT_FALSE(clock().status().enabled());
  EXPECT_EQ(clock().status().reason, Reason::kNotStarted);
  EXPECT_EQ(clock().open_op({}), 0U);
  clock().close_op(0);
  clock().close_op(17);
  clock().flush();
  clock().stop();
  EXPECT_THAT(clock().take().spans, IsEmpty());
}

TEST_F(DeviceClock, ASecondStartChangesNothing) {
  start();
  const std::uint64_t op = clock().open_op({});
  EXPECT_TRUE(start().enabled());
  const std::uint32_t inside = launch();
  clock().close_op(op);
  EXPECT_EQ(op_of(stop_and_take(), inside), op);
}

TEST_F(DeviceClock, WithoutADriverCuptiIsNotTouched) {
  setenv("HEADSCOPE_CUDA_DRIVER_LIBRARY", "/nonexistent/libcuda.so.1", 1);  // NOLINT(concurrency-mt-unsafe)
  const Status status = start();
  EXPECT_EQ(status.reason, Reason::kNoDriver);
  EXPECT_THAT(status.text, HasSubstr("no NVIDIA driver is loaded"));
  EXPECT_EQ(fake_cupti_state().calls, 0U);
}

TEST_F(DeviceClock, ADriverThatIsNotLoadedIsNotLoadedByUs) {
  unsetenv("HEADSCOPE_CUDA_DRIVER_LIBRARY");  // NOLINT(concurrency-mt-unsafe)
  const Driver driver = find_driver();
  EXPECT_EQ(driver.init, nullptr);
}

TEST_F(DeviceClock, ADriverThatFailsIsNamedWithItsCode) {
  fake_cuda_set(999, 1, 0, 13000);
  const Status status = start();
  EXPECT_EQ(status.reason, Reason::kDriverFailed);
  EXPECT_THAT(status.text, HasSubstr("cuInit returned 999"));
  fake_cuda_set(0, 1, 3, 13000);
  EXPECT_THAT(start().text, HasSubstr("cuDeviceGetCount returned 3"));
  EXPECT_EQ(fake_cupti_state().calls, 0U);
}

TEST_F(DeviceClock, WithoutADeviceThereIsNothingToTrace) {
  fake_cuda_set(100, 0, 0, 13000);
  EXPECT_EQ(start().reason, Reason::kNoDevice);
  fake_cuda_set(0, 0, 0, 13000);
  EXPECT_EQ(start().reason, Reason::kNoDevice);
  EXPECT_EQ(fake_cupti_state().calls, 0U);
}

TEST(DriverGate, KnowsTheNewestReleaseThatTheDriverServes) {
  const Driver driver{[](unsigned) { return 0; },
                      [](int* count) {
                        *count = 2;
                        return 0;
                      },
                      [](int* version) {
                        *version = 12'040;
                        return 0;
                      }};
  EXPECT_EQ(check_driver(driver).cuda_major, 12);
}

TEST_F(DeviceClock, ARunningTorchProfilerComesFirst) {
  Situation situation;
  situation.torch_profiler_running = true;
  EXPECT_EQ(start(situation).reason, Reason::kTorchProfiler);
  EXPECT_EQ(fake_cupti_state().calls, 0U);
}

TEST_F(DeviceClock, TheSubscriberIsGivenBackAtOnce) {
  start();
  EXPECT_FALSE(fake_cupti_state().subscribed) << "torch.profiler would never see a device again";
  EXPECT_EQ(fake_cupti_state().subscriptions, 1U);
}

TEST_F(DeviceClock, ABusySubscriberIsNamed) {
  fake_cupti_set_version(130001);
  fake_cupti_hold_subscriber("CUPTI for Nsight Systems");
  const Status status = start();
  EXPECT_EQ(status.reason, Reason::kBusy);
  EXPECT_THAT(status.text, HasSubstr("CUPTI for Nsight Systems"));
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
}

TEST_F(DeviceClock, ABusySubscriberWithoutANameIsStillToldOf) {
  fake_cupti_hold_subscriber("");
  EXPECT_THAT(start().text, HasSubstr("another tool"));
}

TEST_F(DeviceClock, AnIdleTorchProfilerMayKeepTheSubscriber) {
  fake_cupti_hold_subscriber("CUPTI for Kineto");
  Situation situation;
  situation.torch_profiler_used = true;
  EXPECT_TRUE(start(situation).enabled());
  const std::uint64_t op = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
}

TEST_F(DeviceClock, AToolThatCameAfterARefusalCanBeTriedAgain) {
  fake_cupti_hold_subscriber("other");
  start();
  fake_cupti_hold_subscriber(nullptr);
  EXPECT_TRUE(start().enabled());
}

TEST(Arbiter, ClientsOfTheInterfaceForSeveralAreAConflict) {
  Situation used;
  used.torch_profiler_used = true;
  EXPECT_EQ(decide_after_probe(used, abi::kNotCompatible, "").reason, Reason::kBusy);
}

TEST(Arbiter, GraphsKeepTheSubscriberAndNothingElseDoes) {
  Situation graphs;
  graphs.graphs = true;
  EXPECT_EQ(decide_after_probe(graphs, abi::kSuccess, "").claim, Claim::kKeep);
  EXPECT_EQ(decide_after_probe({}, abi::kSuccess, "").claim, Claim::kRelease);
}

TEST(Arbiter, GraphsBesideAnIdleTorchProfilerAreWarnedOf) {
  Situation situation;
  situation.graphs = true;
  situation.torch_profiler_used = true;
  const Decision decision = decide_after_probe(situation, abi::kMultipleSubscribers, "");
  EXPECT_EQ(decision.claim, Claim::kWithout);
  EXPECT_THAT(decision.warning, HasSubstr("graphs"));
}

struct NeededCall {
  const char* function;
  std::uint32_t kind;
};

class EachNeededCall : public DeviceClock, public ::testing::WithParamInterface<NeededCall> {};

TEST_P(EachNeededCall, FailureIsAReasonAndLeavesNothingOn) {
  for (const bool graphs : {false, true}) {
    Situation situation;
    situation.graphs = graphs;
    fake_cupti_fail(GetParam().function, 999, GetParam().kind);
    const Status status = start(situation);
    EXPECT_EQ(status.reason, Reason::kCallFailed);
    EXPECT_THAT(status.text, HasSubstr(GetParam().function));
    EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
    EXPECT_FALSE(fake_cupti_state().subscribed);
    EXPECT_EQ(clock().open_op({}), 0U);
    fake_cupti_fail(GetParam().function, 0, 0);
    EXPECT_TRUE(start(situation).enabled()) << "it can be tried again";
    clock().stop();
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, EachNeededCall,
                         ::testing::Values(NeededCall{"cuptiGetVersion", 0}, NeededCall{"cuptiSubscribe", 0},
                                           NeededCall{"cuptiActivityRegisterCallbacks", 0},
                                           NeededCall{"cuptiGetTimestamp", 0}, NeededCall{"cuptiActivityEnable", 10},
                                           NeededCall{"cuptiActivityEnable", 39}, NeededCall{"cuptiActivityEnable", 5}),
                         [](const auto& test) { return test.param.function + std::to_string(test.param.kind); });

class EachUsefulCall : public DeviceClock, public ::testing::WithParamInterface<NeededCall> {};

TEST_P(EachUsefulCall, FailureIsAWarningAndKernelsAreStillTraced) {
  fake_cupti_fail(GetParam().function, 7, GetParam().kind);
  Situation situation;
  situation.graphs = true;
  const Status status = start(situation);
  EXPECT_TRUE(status.enabled());
  ASSERT_THAT(status.warnings, SizeIs(1));
  EXPECT_THAT(status.warnings[0], HasSubstr(GetParam().function));
  const std::uint64_t op = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ElementsAre(op));
}

INSTANTIATE_TEST_SUITE_P(Calls, EachUsefulCall,
                         ::testing::Values(NeededCall{"cuptiSetThreadIdType", 0}, NeededCall{"cuptiActivityEnable", 4},
                                           NeededCall{"cuptiActivityEnable", 1}, NeededCall{"cuptiActivityEnable", 2},
                                           NeededCall{"cuptiEnableCallback", 0}),
                         [](const auto& test) { return test.param.function + std::to_string(test.param.kind); });

class EachOtherCall : public DeviceClock, public ::testing::WithParamInterface<const char*> {};

TEST_P(EachOtherCall, FailureAtAnyTimeIsSurvived) {
  fake_cupti_set_version(130001);
  start();
  launch_in_op();
  fake_cupti_fail(GetParam(), 999, 0);
  launch_in_op();
  clock().flush();
  static_cast<void>(clock().take());
  static_cast<void>(stop_and_take());
  fake_cupti_fail(GetParam(), 0, 0);
  static_cast<void>(stop_and_take());
  ASSERT_TRUE(start().enabled());
  const std::uint64_t op = launch_in_op();
  EXPECT_THAT(ops_of_spans(stop_and_take()), ::testing::Contains(op));
}

INSTANTIATE_TEST_SUITE_P(Calls, EachOtherCall,
                         ::testing::Values("cuptiActivityPushExternalCorrelationId",
                                           "cuptiActivityPopExternalCorrelationId", "cuptiActivityFlushAll",
                                           "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords",
                                           "cuptiActivityDisable", "cuptiGetTimestamp", "cuptiUnsubscribe",
                                           "cuptiGetResultString", "cuptiGetGraphNodeId", "cuptiSubscribe_v2"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(DeviceClock, AFlushThatFailsIsNamedAndNotTakenForATheft) {
  start();
  launch();
  fake_cupti_fail("cuptiActivityFlushAll", 999, 0);
  clock().stop();
  EXPECT_FALSE(clock().losses().stolen);
  ASSERT_THAT(clock().status().warnings, SizeIs(1));
  EXPECT_THAT(clock().status().warnings[0], HasSubstr("cuptiActivityFlushAll failed with 999"));
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
}

TEST_F(DeviceClock, AnOpWhoseIdIsRefusedIsCounted) {
  start();
  fake_cupti_fail("cuptiActivityPushExternalCorrelationId", 999, 0);
  EXPECT_EQ(clock().open_op({}), 0U);
  clock().stop();
  EXPECT_EQ(clock().losses().unmarked_ops, 1U);
}

TEST_F(DeviceClock, AdministratorsOnlyIsExplained) {
  fake_cupti_fail("cuptiActivityEnable", 35, 10);
  EXPECT_THAT(start().text, HasSubstr("NVreg_RestrictProfilingToAdminUsers"));
}

TEST_F(DeviceClock, AResultHasItsWordsWhereTheLibraryKnowsThem) {
  fake_cupti_fail("cuptiActivityRegisterCallbacks", 39, 0);
  EXPECT_THAT(start().text, HasSubstr("39 (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)"));
}

TEST_F(DeviceClock, TheFirstReleaseOf13IsWarnedOf) {
  fake_cupti_set_version(130000);
  EXPECT_THAT(start().warnings, ElementsAre(HasSubstr("13.0 before Update 1")));
}

TEST_F(DeviceClock, TheOneInUseIsNamed) {
  start();
  EXPECT_EQ(clock().library_path(), HEADSCOPE_FAKE_CUPTI);
}

TEST(DeviceClockReasons, HaveNamesForMachines) {
  EXPECT_EQ(to_string(Reason::kNone), "none");
  EXPECT_EQ(to_string(Reason::kTorchProfiler), "torch_profiler");
  EXPECT_EQ(to_string(Reason::kCallFailed), "call_failed");
}

TEST_F(DeviceClock, AProbeTellsWhetherAStartWouldWorkAndHoldsNothing) {
  EXPECT_TRUE(clock().probe({}).enabled());
  EXPECT_FALSE(fake_cupti_state().subscribed);
  EXPECT_EQ(fake_cupti_state().enabled_kinds, 0U);
  EXPECT_EQ(clock().status().reason, Reason::kNotStarted);
  fake_cupti_hold_subscriber("a debugger");
  EXPECT_EQ(clock().probe({}).reason, Reason::kBusy);
}

TEST_F(DeviceClock, AProbeOfARunningClockDisturbsNothing) {
  start();
  EXPECT_TRUE(clock().probe({}).enabled());
  launch_in_op();
  EXPECT_THAT(stop_and_take().spans, ::testing::SizeIs(1));
}

}  // namespace
}  // namespace headscope::timeline::cupti
