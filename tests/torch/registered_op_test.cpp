// register_attention_op on ops defined before and after it.

#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>

#include "headscope/headscope.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

at::Tensor copy_query(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/, bool /*causal*/,
                      int64_t /*window*/) {
  return q.clone();
}

TORCH_LIBRARY(headscope_registered_test, library) {
  library.def("early(Tensor q, Tensor k, Tensor v, bool causal, int window) -> Tensor");
  library.def("wrong(Tensor q, Tensor k, Tensor v) -> Tensor");
  library.def("composite(Tensor query, Tensor key, Tensor value) -> Tensor",
              [](const at::Tensor& query, const at::Tensor&, const at::Tensor&) { return query.clone(); });
}
TORCH_LIBRARY_IMPL(headscope_registered_test, CPU, library) { library.impl("early", copy_query); }

AttentionOpSpec spec_of(const char* op) {
  AttentionOpSpec spec;
  spec.op = op;
  spec.variant = "mine";
  spec.layout = Layout::kBSHD;
  spec.query = "q";
  spec.key = "k";
  spec.value = "v";
  spec.causal = "causal";
  spec.causal_lower_right = true;
  spec.window_left = "window";
  return spec;
}

at::Tensor call(const char* op, bool causal, int64_t window) {
  static const auto signature = [](const char* name) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow(name, "")
        .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, int64_t)>();
  };
  const at::Tensor q = at::ones({1, 2, 3, 8});   // 2 queries, 3 heads
  const at::Tensor kv = at::ones({1, 5, 3, 8});  // 5 keys
  return signature(op).call(q, kv, kv, causal, window);
}

TEST(RegisteredOp, DefinedBeforeIsSeen) {
  register_attention_op(spec_of("headscope_registered_test::early"));
  const AttentionProfiler profiler;
  call("headscope_registered_test::early", false, -1);
  // 3 heads × 2 × 5 pairs × 2 × (8+8).
  EXPECT_EQ(profiler.get_stats().total.flops, Count{960});
}

TEST(RegisteredOp, ArgumentsAreReadByTheirGivenNames) {
  register_attention_op(spec_of("headscope_registered_test::early"));
  const AttentionProfiler profiler;
  call("headscope_registered_test::early", true, 1);
  // Lower right: query 0 ends at key 3, query 1 at key 4; a window of 1 leaves 2 keys each.
  EXPECT_EQ(profiler.get_stats().total.flops, Count{3 * 4 * 2 * (8 + 8)});
}

TEST(RegisteredOp, VariantIsTheGivenName) {
  register_attention_op(spec_of("headscope_registered_test::early"));
  const AttentionProfiler profiler;
  call("headscope_registered_test::early", false, -1);
  EXPECT_EQ(only_row(profiler.get_stats()).variant, "mine");
}

TEST(RegisteredOp, DefinedAfterIsSeen) {
  register_attention_op(spec_of("headscope_late_test::late"));
  torch::Library late(torch::Library::DEF, "headscope_late_test", std::nullopt, __FILE__, __LINE__);
  late.def("late(Tensor q, Tensor k, Tensor v, bool causal, int window) -> Tensor");
  late.impl("late", torch::dispatch(c10::DispatchKey::CPU, copy_query));
  const AttentionProfiler profiler;
  call("headscope_late_test::late", false, -1);
  EXPECT_EQ(calls_of(profiler.get_stats()), 1U);
}

TEST(RegisteredOp, NeverDefinedIsListedAsNotObservable) {
  register_attention_op(spec_of("headscope_registered_test::never"));
  const AttentionProfiler profiler;
  const Stats stats = profiler.get_stats();
  const auto& missing = stats.diagnostics.not_observable;
  EXPECT_TRUE(std::any_of(missing.begin(), missing.end(),
                          [](const NotObservable& op) { return op.what == "headscope_registered_test::never"; }));
}

TEST(RegisteredOp, WithAnotherSpecIsRefused) {
  register_attention_op(spec_of("headscope_registered_test::early"));
  AttentionOpSpec other = spec_of("headscope_registered_test::early");
  other.variant = "other";
  EXPECT_THROW(register_attention_op(other), Error);
}

TEST(RegisteredOp, WithoutANamedArgumentIsRefused) {
  EXPECT_THROW(register_attention_op(spec_of("headscope_registered_test::wrong")), Error);
}

TEST(RegisteredOp, CompositeIsRefused) {
  AttentionOpSpec spec;
  spec.op = "headscope_registered_test::composite";
  spec.variant = "mine";
  EXPECT_THROW(register_attention_op(spec), Error);
}

TEST(RegisteredOp, KnownOpIsRefused) {
  AttentionOpSpec spec;
  spec.op = "aten::_scaled_dot_product_flash_attention_for_cpu";
  spec.variant = "mine";
  EXPECT_THROW(register_attention_op(spec), Error);
}

TEST(RegisteredOp, MalformedNameIsRefused) { EXPECT_THROW(register_attention_op(spec_of("early")), Error); }

}  // namespace
}  // namespace headscope::torch_tests
