#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "aggregate/aggregate.h"
#include "aggregate/snapshot.h"
#include "model/work.h"
#include "support/builders.h"

namespace headscope::aggregate {
namespace {

using test_support::a_call;
using test_support::CallBuilder;

/// An output of 32 bytes.
CallBuilder with_peak(std::int64_t bytes) {
  return a_call().shape(1, 1, 2, 4).with([=](auto& call) { call.peak_bytes = bytes; });
}

class MemorySectionTest : public ::testing::Test {
 protected:
  void add(std::uint32_t layer, std::int64_t step, const CallBuilder& builder) {
    const records::AttentionCall call = builder.build();
    aggregate.add(model::cost(call, 1), {LayerKey::Kind::kNumber, layer}, step);
  }
  [[nodiscard]] MemorySection section() const {
    Stats stats;
    fill_stats(aggregate, [](std::uint32_t) { return nullptr; }, stats);
    return stats.memory;
  }

  Aggregate aggregate{Wanted{}};
};

TEST_F(MemorySectionTest, SpikeIsTheLargestCallOfARowWithItsStep) {
  add(0, 0, with_peak(40));
  add(0, 1, with_peak(90));
  add(0, 2, with_peak(50));
  const MemorySection memory = section();
  ASSERT_EQ(memory.spikes.size(), 1U);
  EXPECT_EQ(memory.spikes[0].bytes, 90);
  EXPECT_EQ(memory.spikes[0].step, 1);
}

TEST_F(MemorySectionTest, LargestSpikeComesFirstAndNamesItsLayer) {
  add(0, 0, with_peak(40));
  add(1, 0, with_peak(90));
  EXPECT_EQ(section().spikes.at(0).layer, "attention[1]");
}

TEST_F(MemorySectionTest, CauseIsTheLargestPart) {
  add(0, 0, with_peak(200).with([](auto& call) { call.score_bytes = 150; }));
  const MemorySpike spike = section().spikes.at(0);
  EXPECT_EQ(spike.cause, "score_matrix");
  EXPECT_EQ(spike.parts, (std::vector<MemoryPart>{{"score_matrix", 150}, {"output", 32}, {"workspace", 18}}));
}

TEST_F(MemorySectionTest, CopiesMadeBeforeAFusedCallAreASpikeOfTheirOwn) {
  add(0, 3, with_peak(32).with([](auto& call) {
    call.materialized.exact = true;
    call.materialized.kv_copy_bytes = 500;
  }));
  const MemorySpike spike = section().spikes.at(0);
  EXPECT_EQ(spike.cause, "kv_copy");
  EXPECT_EQ(spike.bytes, 500);
  EXPECT_EQ(spike.step, 3);
}

TEST_F(MemorySectionTest, LayerHasTheLargestPeakOfItsRows) {
  add(0, 0, with_peak(40));
  add(0, 0, with_peak(70).backward());
  EXPECT_EQ(section().layers, (std::vector<LayerPeak>{{"attention[0]", 0, 70}}));
}

TEST_F(MemorySectionTest, PeakOfALayerIsUnknownWhereOneOfItsCallsIs) {
  add(0, 0, with_peak(40));
  add(0, 0, with_peak(-1).backward());
  EXPECT_EQ(section().layers.at(0).peak_bytes, std::nullopt);
}

TEST_F(MemorySectionTest, HoldsSixteenSpikesAtMost) {
  for (std::uint32_t layer = 0; layer < 40; ++layer) {
    add(layer, 0, with_peak(100 + layer));
  }
  const MemorySection memory = section();
  EXPECT_EQ(memory.spikes.size(), 16U);
  EXPECT_EQ(memory.spikes.front().bytes, 139);
  EXPECT_EQ(memory.layers.size(), 40U);
}

}  // namespace
}  // namespace headscope::aggregate
