#include "capture/layers.h"

#include <gtest/gtest.h>

#include <thread>

namespace headscope::capture {
namespace {

TEST(Layers, InnermostScopeNamesTheLayer) {
  const LayerScope outer("outer");
  const LayerScope inner("inner");
  EXPECT_EQ(layer_info(current_layer())->name, "inner");
}

TEST(Layers, LeavingAScopeGivesTheOuterNameBack) {
  const LayerScope outer("outer");
  {
    const LayerScope inner("inner");
  }
  EXPECT_EQ(layer_info(current_layer())->name, "outer");
}

TEST(Layers, EqualInfosShareAHandle) {
  EXPECT_EQ(intern_layer({.name = "a", .index = 1, .heads = 4, .model_kv_heads = 2, .cross = false}),
            intern_layer({.name = "a", .index = 1, .heads = 4, .model_kv_heads = 2, .cross = false}));
}

TEST(Layers, ScopesDeeperThanRememberedStayBalanced) {
  const LayerScope outer("outer");
  const std::uint32_t label = current_layer();
  for (int i = 0; i < 100; ++i) {
    push_layer(label + 1);
  }
  for (int i = 0; i < 100; ++i) {
    pop_layer();
  }
  EXPECT_EQ(current_layer(), label);
}

TEST(Layers, ThreadsHaveTheirOwnLabels) {
  const LayerScope outer("outer");
  std::uint32_t seen = 1;
  std::thread([&seen] { seen = current_layer(); }).join();
  EXPECT_EQ(seen, 0U);
}

}  // namespace
}  // namespace headscope::capture
