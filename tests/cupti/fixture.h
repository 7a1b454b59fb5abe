#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "records/device_activity.h"
#include "support/fake_cupti/control.h"
#include "timeline/cupti/cupti_timeline.h"

namespace headscope::timeline::cupti {

/// Each test begins with a fake that works and a device clock that is stopped and empty.
class DeviceClock : public ::testing::Test {
 protected:
  void SetUp() override {
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet
    setenv("HEADSCOPE_CUPTI_LIBRARY", HEADSCOPE_FAKE_CUPTI, 1);
    setenv("HEADSCOPE_CUDA_DRIVER_LIBRARY", HEADSCOPE_FAKE_CUDA, 1);
    // NOLINTEND(concurrency-mt-unsafe)
    fake_cupti_reset();
    fake_cuda_set(0, 1, 0, 13000);
    clock().set_limits({});
  }

  void TearDown() override {
    fake_cupti_hold(false);
    fake_cupti_deliver_late();
    clock().stop();
    static_cast<void>(clock().take());
  }

  static CuptiTimeline& clock() { return cupti_timeline(); }

  static Status start(const Situation& situation = {}) { return clock().start(situation); }

  static records::DeviceActivity stop_and_take() {
    clock().stop();
    return clock().take();
  }

  static std::uint32_t launch(const FakeLaunch& what = {}) { return fake_cupti_launch(&what); }

  static std::uint32_t launch_named(const char* name) {
    FakeLaunch what;
    what.name = name;
    return fake_cupti_launch(&what);
  }

  /// Launches inside an op of its own, and gives its id.
  static std::uint64_t launch_in_op(const FakeLaunch& what = {}) {
    const std::uint64_t op = clock().open_op({});
    fake_cupti_launch(&what);
    clock().close_op(op);
    return op;
  }
};

/// The op of the launch with this correlation id; 0 when there is none.
inline std::uint64_t op_of(const records::DeviceActivity& activity, std::uint32_t correlation) {
  for (const records::Launch& launch : activity.launches) {
    if (launch.correlation == correlation) {
      return launch.op;
    }
  }
  return 0;
}

/// The ops of all spans, by way of their launches, in the order of the spans.
inline std::vector<std::uint64_t> ops_of_spans(const records::DeviceActivity& activity) {
  std::vector<std::uint64_t> ops;
  for (const records::DeviceSpan& span : activity.spans) {
    ops.push_back(op_of(activity, span.correlation));
  }
  return ops;
}

}  // namespace headscope::timeline::cupti
