#include "model/memory_parts.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace headscope::model {
namespace {

using records::MemoryParts;
using test_support::a_call;
using test_support::CallBuilder;

/// 1 head, 2 queries and keys, 4 numbers of 4 bytes a head: each operand has 32 bytes.
CallBuilder small(std::int64_t peak) {
  return a_call().shape(1, 1, 2, 4).with([=](auto& call) { call.peak_bytes = peak; });
}

TEST(MemoryParts, WithoutAPeakNothingIsTold) { EXPECT_EQ(memory_parts(small(-1).build()), MemoryParts{}); }

TEST(MemoryParts, ForwardHasItsOutput) { EXPECT_EQ(memory_parts(small(32).build()), (MemoryParts{.output = 32})); }

TEST(MemoryParts, WhatNoPartExplainsIsWorkspace) {
  EXPECT_EQ(memory_parts(small(100).build()), (MemoryParts{.output = 32, .workspace = 68}));
}

TEST(MemoryParts, BackwardHasTheGradientsThatWereAskedFor) {
  const auto call = small(64).backward().gradients({.q = true, .k = true, .v = false}).build();
  EXPECT_EQ(memory_parts(call), (MemoryParts{.gradient = 64}));
}

TEST(MemoryParts, PartsThatFollowedEachOtherMayExceedThePeak) {
  const auto call = small(40).with([](auto& c) {
    c.score_bytes = 16;
    c.found = records::FoundAllocations{.kv_copies = 8, .masks = 4, .upcasts = 2};
  });
  EXPECT_EQ(memory_parts(call.build()),
            (MemoryParts{.score_matrix = 16, .mask = 4, .kv_copy = 8, .upcast = 2, .output = 32}));
}

}  // namespace
}  // namespace headscope::model
