#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "aggregate/snapshot.h"
#include "base/clock.h"
#include "headscope/stats.h"
#include "session/collector.h"
#include "session/session.h"
#include "support/builders.h"

namespace headscope::session {

/// The collector of this test program; one a process, never destroyed.
inline Collector& collector() {
  static Collector& instance = *new Collector;
  return instance;
}

/// A session that stops when the test ends.
struct TestSession : Session {
  explicit TestSession(const Options& chosen = {}) : Session(chosen) {}
  TestSession(const TestSession&) = delete;
  TestSession& operator=(const TestSession&) = delete;
  ~TestSession() { collector().stop(*this); }
};

inline Stats stats_of(Session& session) {
  const Collected collected = collector().collect(session);
  Stats stats;
  aggregate::fill_stats(collected.aggregate, [](std::uint32_t) { return nullptr; }, stats);
  return stats;
}

inline std::vector<StepPoint> points_of(Session& session) { return collector().collect(session).series.points(); }

inline std::uint64_t calls_seen(Session& session) { return collector().collect(session).aggregate.calls_seen(); }

/// What a hook does for one call of an unnamed layer, started when it is built. Returns what it submitted.
inline records::AttentionCall record(test_support::CallBuilder builder = test_support::a_call().shape(1, 2, 8, 4)) {
  const records::Watch watch = collector().watch();
  const records::LayerRef layer = watch.sessions == 0 ? records::LayerRef{} : collector().next_unnamed_layer();
  const records::AttentionCall call =
      builder.layer(layer).time(base::monotonic_ns(), 1'000).sessions(watch.sessions).build();
  collector().submit(records::AttentionCall(call));
  return call;
}

/// On a thread of its own, which ends.
template <class Work>
void on_another_thread(Work&& work) {
  std::thread(std::forward<Work>(work)).join();
}

}  // namespace headscope::session
