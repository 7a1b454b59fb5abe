// Calls timed by events of a device that this process plays itself, through torch's device guard.

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <vector>

#include "headscope/headscope.h"
#include "support/fake_cupti/control.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

struct PlayedDevice {
  std::int64_t now_ns = 0;
  bool busy = false;       ///< events are not reached before a synchronisation
  bool capturing = false;  ///< the current stream is captured into a graph
  bool broken = false;     ///< every call raises
  std::size_t created = 0;
  std::size_t destroyed = 0;
};
PlayedDevice g_device;

struct Event {
  std::int64_t time_ns = 0;
  bool reached = false;
};

class PlayedGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  bool isStreamCapturing(const c10::Stream&) const override { return g_device.capturing; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    if (g_device.broken || stream.device_index() != index || flag != c10::EventFlag::BACKEND_DEFAULT) {
      throw std::runtime_error("no event");
    }
    if (*event == nullptr) {
      *event = new Event;
      ++g_device.created;
    }
    *static_cast<Event*>(*event) = {g_device.now_ns, !g_device.busy};
  }
  bool queryEvent(void* event) const override { return !g_device.busy || static_cast<Event*>(event)->reached; }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    return static_cast<double>(static_cast<Event*>(second)->time_ns - static_cast<Event*>(first)->time_ns) / 1e6;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
    ++g_device.destroyed;
  }
  void synchronizeDevice(const c10::DeviceIndex) const override { g_device.busy = false; }
};
C10_REGISTER_GUARD_IMPL(CUDA, PlayedGuard)

at::Tensor on_device(at::IntArrayRef sizes, c10::DeviceIndex index = 0) {
  static std::vector<float> memory(1024);
  const c10::Device device(c10::DeviceType::CUDA, index);
  return at::for_blob(memory.data(), sizes)
      .target_device(device)
      .options(at::device(device).dtype(at::kFloat))
      .make_tensor();
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/, std::int64_t time_ns) {
  g_device.now_ns += time_ns;
  return on_device(q.sizes());
}
at::Tensor attention_on_host(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/, std::int64_t) {
  return q.clone();
}
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  g_device.now_ns += 100;
  return on_device({a.size(0), a.size(1), b.size(2)});
}
at::Tensor softmax(const at::Tensor& x, std::int64_t, bool) {
  g_device.now_ns += 10;
  return on_device(x.sizes());
}

TORCH_LIBRARY(headscope_event_test, library) {
  library.def("attention(Tensor q, Tensor k, Tensor v, int time_ns) -> Tensor");
}
TORCH_LIBRARY_IMPL(headscope_event_test, CUDA, library) { library.impl("attention", attention); }
TORCH_LIBRARY_IMPL(headscope_event_test, CPU, library) { library.impl("attention", attention_on_host); }
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("bmm", product);
  library.impl("_softmax", softmax);
}

void attend_for(std::int64_t time_ns, const at::Tensor& x = on_device({1, 2, 4, 8})) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("headscope_event_test::attention", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t)>();
  op.call(x, x, x, time_ns);
}

class DeviceEvents : public ::testing::Test {
 protected:
  void SetUp() override {
    g_device = {};
    register_mine("headscope_event_test::attention");
  }

  static Options options() { return {.device_timing = DeviceTiming::kEvents, .keep_calls = 100}; }
};

TEST_F(DeviceEvents, TimeACallBetweenThem) {
  const AttentionProfiler profiler(options());
  attend_for(3'000);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(time_of(stats.total), 3'000);
  const AttentionRow row = only_row(stats);
  EXPECT_EQ(row.time->source, TimeSource::kEvents);
  EXPECT_TRUE(row.kernels.empty());
  EXPECT_EQ(stats.diagnostics.device_timing_mode, "events");
}

TEST_F(DeviceEvents, OfTheOpsOfAChainAreAddedAndItsGlueIsUnknown) {
  const AttentionProfiler profiler(options());
  const at::Tensor x = on_device({2, 4, 8});
  const at::Tensor scores = at::bmm(x, on_device({2, 8, 4}));
  g_device.now_ns += 7'000;  // between the ops
  at::bmm(at::_softmax(scores, 2, false), x);
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(time_of(row), 210);
  EXPECT_FALSE(row.glue);
}

TEST_F(DeviceEvents, AreWaitedFor) {
  const AttentionProfiler profiler(options());
  g_device.busy = true;
  attend_for(500);
  EXPECT_EQ(time_of(profiler.get_stats().total), 500);
}

TEST_F(DeviceEvents, AreOfTheDeviceOfTheTensors) {
  const AttentionProfiler profiler(options());
  attend_for(500, on_device({1, 2, 4, 8}, 1));
  EXPECT_EQ(time_of(profiler.get_stats().total), 500);
}

TEST_F(DeviceEvents, AreNotOfTheHost) {
  const AttentionProfiler profiler(options());
  attend_for(0, at::ones({1, 2, 4, 8}));
  const AttentionRow row = only_row(profiler.get_stats());
  EXPECT_EQ(row.time->source, TimeSource::kHost);
  EXPECT_GT(time_of(row), 0);
  EXPECT_EQ(g_device.created, 0U);
}

TEST_F(DeviceEvents, AreKeptOutOfCaptures) {
  const AttentionProfiler profiler(options());
  g_device.capturing = true;
  attend_for(500);
  g_device.capturing = false;
  EXPECT_EQ(profiler.get_stats().diagnostics.calls_untimed, 1U);
  EXPECT_EQ(g_device.created, 0U);
}

TEST_F(DeviceEvents, ThatFailLeaveTheCallWithoutATime) {
  const AttentionProfiler profiler(options());
  g_device.broken = true;
  attend_for(500);
  g_device.broken = false;
  attend_for(600);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(stats.total.calls, 2U);
  EXPECT_EQ(stats.diagnostics.calls_untimed, 1U);
}

TEST_F(DeviceEvents, AreUsedAgainAndDestroyed) {
  constexpr int kCalls = 50'000;
  {
    const AttentionProfiler profiler(options());
    for (int i = 0; i < kCalls; ++i) {
      attend_for(10);
    }
    const Stats stats = profiler.get_stats();
    EXPECT_EQ(stats.total.calls, static_cast<std::uint64_t>(kCalls));
    EXPECT_EQ(time_of(stats.total), 10 * kCalls);
    EXPECT_LT(g_device.created, 20'000U);
  }
  EXPECT_EQ(g_device.destroyed, g_device.created);
}

TEST_F(DeviceEvents, StandInWhereAnotherToolHasCupti) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  setenv("HEADSCOPE_CUPTI_LIBRARY", HEADSCOPE_FAKE_CUPTI, 1);
  setenv("HEADSCOPE_CUDA_DRIVER_LIBRARY", HEADSCOPE_FAKE_CUDA, 1);
  // NOLINTEND(concurrency-mt-unsafe)
  fake_cupti_reset();
  fake_cuda_set(0, 1, 0, 13000);
  fake_cupti_hold_subscriber("a debugger");
  const AttentionProfiler profiler({.device_timing = DeviceTiming::kCupti});
  attend_for(500);
  const Stats stats = profiler.get_stats();
  EXPECT_EQ(time_of(stats.total), 500);
  EXPECT_EQ(stats.diagnostics.device_timing_mode, "events");
  EXPECT_THAT(stats.diagnostics.device_timing_reason, ::testing::HasSubstr("CUPTI is in use"));
}

}  // namespace
}  // namespace headscope::torch_tests
