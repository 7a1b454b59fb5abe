#include "capture/forward_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "capture/layers.h"

namespace headscope::capture {
namespace {

ForwardInfo call(std::uint64_t id) {
  ForwardInfo info;
  info.call_id = id;
  return info;
}

TEST(ForwardLinks, BackwardFindsTheForwardThatSavedItsStorage) {
  const auto links = std::make_unique<ForwardLinks>();
  links->put(0x1000, call(7));
  links->put(0x2000, call(8));
  EXPECT_EQ(links->find(0x1000)->call_id, 7U);
}

TEST(ForwardLinks, UnknownStorageHasNoForward) {
  const auto links = std::make_unique<ForwardLinks>();
  EXPECT_FALSE(links->find(0x1000));
}

TEST(ForwardLinks, ReusedAddressMeansTheLaterForward) {
  const auto links = std::make_unique<ForwardLinks>();
  links->put(0x1000, call(1));
  links->put(0x1000, call(2));
  EXPECT_EQ(links->find(0x1000)->call_id, 2U);
}

TEST(ForwardLinks, FullBucketsForgetTheOldest) {
  const auto links = std::make_unique<ForwardLinks>();
  constexpr std::uint64_t kMany = 100'000;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    links->put(i * 64, call(i));
  }
  int recent = 0;
  for (std::uint64_t i = kMany - 99; i <= kMany; ++i) {
    recent += links->find(i * 64).has_value() ? 1 : 0;
  }
  EXPECT_EQ(recent, 100);
  EXPECT_FALSE(links->find(64));
}

TEST(ForwardLinks, ThreadsNeverSeeAMixedEntry) {
  const auto links = std::make_unique<ForwardLinks>();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      ForwardInfo info = call(i);
      info.layer.order = i;
      links->put(0x1000, info);
    }
  });
  for (int i = 0; i < 100'000; ++i) {
    if (const auto found = links->find(0x1000)) {
      ASSERT_EQ(found->call_id, found->layer.order);
    }
  }
  stop = true;
  writer.join();
}

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
