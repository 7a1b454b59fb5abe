// A backward names its forward, and only its own: addresses of freed tensors come back.

#include "capture/torch/forward_links.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "headscope/headscope.h"
#include "torch/attend.h"

namespace headscope::torch_tests {
namespace {

using capture::torch::ForwardInfo;
using capture::torch::ForwardLinks;
using capture::torch::storage_of;
using capture::torch::WeakStorage;

ForwardInfo call(std::uint64_t id) {
  ForwardInfo info;
  info.call_id = id;
  return info;
}

TEST(ForwardLinks, BackwardFindsTheForwardThatSavedItsStorage) {
  const auto links = std::make_unique<ForwardLinks>();
  const at::Tensor first = at::ones({1});
  const at::Tensor second = at::ones({1});
  links->put(WeakStorage(first), call(7));
  links->put(WeakStorage(second), call(8));
  EXPECT_EQ(links->find(storage_of(first))->call_id, 7U);
}

TEST(ForwardLinks, UnknownStorageHasNoForward) {
  const auto links = std::make_unique<ForwardLinks>();
  EXPECT_FALSE(links->find(storage_of(at::ones({1}))));
}

TEST(ForwardLinks, StorageWrittenTwiceMeansTheLaterForward) {
  const auto links = std::make_unique<ForwardLinks>();
  const at::Tensor tensor = at::ones({1});
  links->put(WeakStorage(tensor), call(1));
  links->put(WeakStorage(tensor), call(2));
  EXPECT_EQ(links->find(storage_of(tensor))->call_id, 2U);
}

TEST(ForwardLinks, NoLaterTensorTakesTheAddressOfALinkedStorage) {
  const auto links = std::make_unique<ForwardLinks>();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    links->put(WeakStorage(at::ones({1})), call(i));
    EXPECT_FALSE(links->find(storage_of(at::ones({1}))));
  }
}

TEST(ForwardLinks, LetGoOfFreedStoragesAsOthersCome) {
  const auto links = std::make_unique<ForwardLinks>();
  at::Tensor freed = at::ones({1});
  const auto head = freed.storage().getWeakStorageImpl();
  links->put(WeakStorage(freed), call(1));
  const auto held = head.weak_use_count();
  freed.reset();
  const at::Tensor kept = at::ones({1});
  for (std::uint64_t i = 2; i < 4'100; ++i) {
    links->put(WeakStorage(kept), call(i));
  }
  // One less for the tensor, one less for the link.
  EXPECT_EQ(head.weak_use_count() + 2, held);
}

TEST(ForwardLinks, KeepNoDataAlive) {
  const auto links = std::make_unique<ForwardLinks>();
  at::Tensor tensor = at::ones({1});
  const WeakStorage storage(tensor);
  links->put(storage, call(1));
  tensor.reset();
  EXPECT_FALSE(storage.alive());
}

TEST(ForwardLinks, FullBucketsForgetTheOldest) {
  const auto links = std::make_unique<ForwardLinks>();
  constexpr std::size_t kMany = 100'000;
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 1; i <= kMany; ++i) {
    tensors.push_back(at::empty({0}));
    links->put(WeakStorage(tensors.back()), call(i));
  }
  int recent = 0;
  int oldest = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    recent += links->find(storage_of(tensors[kMany - 1 - i])).has_value() ? 1 : 0;
    oldest += links->find(storage_of(tensors[i])).has_value() ? 1 : 0;
  }
  EXPECT_EQ(recent, 100);
  EXPECT_EQ(oldest, 0);
}

TEST(ForwardLinks, ThreadsNeverSeeAMixedEntry) {
  const auto links = std::make_unique<ForwardLinks>();
  const at::Tensor tensor = at::ones({1});
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      ForwardInfo info = call(i);
      info.layer.order = i;
      links->put(WeakStorage(tensor), info);
    }
  });
  for (int i = 0; i < 100'000; ++i) {
    if (const auto found = links->find(storage_of(tensor))) {
      ASSERT_EQ(found->call_id, found->layer.order);
    }
  }
  stop = true;
  writer.join();
}

TEST(Backward, OfASoftmaxIsNotTakenForThatOfAFreedAttentionOutput) {
  const AttentionProfiler profiler;
  for (int i = 0; i < 500; ++i) {
    const at::Tensor x = at::ones({1, 2, 4, 8}).requires_grad_();
    attend(x);
    at::matmul(at::softmax(x, -1), at::ones({1, 2, 8, 8})).sum().backward();
  }
  EXPECT_EQ(calls_of(profiler.get_stats()), 500U);
}

}  // namespace
}  // namespace headscope::torch_tests
