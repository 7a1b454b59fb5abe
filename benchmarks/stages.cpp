// What the stages after capture cost a call. No torch: the records are built by hand.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aggregate/aggregate.h"
#include "aggregate/quantile_sketch.h"
#include "aggregate/snapshot.h"
#include "correlate/correlate.h"
#include "headscope/stats.h"
#include "model/work.h"
#include "support/builders.h"
#include "timeline/cupti/op_marker.h"

namespace headscope {
namespace {

constexpr std::uint32_t kLayers = 32;

records::AttentionCall a_prefill() {
  return test_support::a_call().shape(4, 32, 1024, 64).causal(records::Causal::kUpperLeft).time(0, 100'000).build();
}

aggregate::LayerKey layer_of(std::uint64_t call) {
  return {aggregate::LayerKey::Kind::kLabel, 1 + static_cast<std::uint32_t>(call % kLayers)};
}

/// `calls` calls of a model with kLayers layers.
void fold(aggregate::Aggregate& aggregate, records::AttentionCall& call, std::uint64_t calls) {
  for (std::uint64_t i = 0; i < calls; ++i) {
    call.time_ns = 100'000 + static_cast<std::int64_t>(i % 97) * 100;
    aggregate.add(model::cost(call, 1), layer_of(i), 0);
  }
}

void cost_of_a_call(benchmark::State& state) {
  const records::AttentionCall call = a_prefill();
  for (auto _ : state) {
    benchmark::DoNotOptimize(model::cost(call, 1));
  }
}
BENCHMARK(cost_of_a_call);

void cost_of_a_varlen_batch(benchmark::State& state) {
  const auto sequences = static_cast<std::size_t>(state.range(0));
  const records::AttentionCall call =
      test_support::a_call()
          .lengths(std::vector<std::int64_t>(sequences, 100), std::vector<std::int64_t>(sequences, 100))
          .causal(records::Causal::kLowerRight)
          .build();
  for (auto _ : state) {
    benchmark::DoNotOptimize(model::cost(call, 1));
  }
}
BENCHMARK(cost_of_a_varlen_batch)->ArgName("sequences")->Arg(1)->Arg(64);

void fold_of_a_call(benchmark::State& state) {
  records::AttentionCall call = a_prefill();
  const records::CostedCall costed = model::cost(call, 1);
  aggregate::Aggregate aggregate({.per_head = state.range(0) != 0});
  std::uint64_t calls = 0;
  for (auto _ : state) {
    call.time_ns = 100'000 + static_cast<std::int64_t>(calls % 97) * 100;
    aggregate.add(costed, layer_of(calls++), 0);
  }
}
BENCHMARK(fold_of_a_call)->ArgName("per_head")->Arg(0)->Arg(1);

/// Must not depend on the number of calls.
void snapshot(benchmark::State& state) {
  records::AttentionCall call = a_prefill();
  aggregate::Aggregate aggregate({});
  fold(aggregate, call, static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) {
    Stats stats;
    aggregate::fill_stats(aggregate, [](std::uint32_t) { return nullptr; }, stats);
    benchmark::DoNotOptimize(stats);
  }
}
BENCHMARK(snapshot)->ArgName("calls")->Arg(1'000)->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

void sketch_add(benchmark::State& state) {
  aggregate::QuantileSketch sketch;
  std::int64_t sample = 1'000;
  for (auto _ : state) {
    sketch.add(sample);
    sample = sample % 99'991 + 1'009;
  }
}
BENCHMARK(sketch_add);

/// A model's calls with a kernel each, and as many kernels of other ops; records in no order.
void correlate_kernels(benchmark::State& state) {
  const auto kernels = static_cast<std::uint32_t>(state.range(0));
  records::DeviceActivity activity;
  std::vector<correlate::CallWindow> windows;
  for (std::uint32_t i = 0; i < kernels; ++i) {
    const std::uint32_t at = (i * 7'919U + 1) % kernels;  // a prime beside any round number: each once
    const std::int64_t start_ns = std::int64_t{10'000} * at;
    activity.launches.push_back(
        {.correlation = at + 1, .thread = 1, .start_ns = start_ns, .end_ns = start_ns + 4'000, .op = at});
    activity.spans.push_back({.device = {records::DeviceType::kCuda, 0},
                              .stream = 7,
                              .correlation = at + 1,
                              .start_ns = start_ns + 5'000,
                              .end_ns = start_ns + 14'000,
                              .name = "void kernel<64, 128>"});
    if (i % 2 == 1) {
      const std::int64_t begin_ns = std::int64_t{10'000} * i;
      windows.push_back({.thread = 1,
                         .ops = {},
                         .whole = {begin_ns, begin_ns + 5'000},
                         .device_ops = {.outer = i, .first = i, .last = i, .thread = 1}});
    }
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(correlate::correlate(windows, activity));
  }
  state.SetItemsProcessed(state.iterations() * kernels);
}
BENCHMARK(correlate_kernels)->ArgName("kernels")->Arg(1'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

/// What the device clock adds to a hooked op, against a libcupti that does nothing.
void mark_an_op(benchmark::State& state) {
  timeline::cupti::Api api;
  api.push_external_id = [](std::uint32_t, std::uint64_t) { return timeline::cupti::abi::kSuccess; };
  api.pop_external_id = [](std::uint32_t, std::uint64_t*) { return timeline::cupti::abi::kMaxLimitReached; };
  timeline::cupti::OpMarker marker;
  marker.begin(api);
  for (auto _ : state) {
    const std::uint64_t op = marker.open();
    benchmark::DoNotOptimize(op);
    marker.close(op);
  }
}
BENCHMARK(mark_an_op);

}  // namespace
}  // namespace headscope
