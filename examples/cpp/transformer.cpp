// A small causal transformer in C++: which layer's attention costs what, forward and backward.

#include <headscope/headscope.h>
#include <torch/torch.h>

#include <iostream>
#include <string>

namespace {

constexpr int64_t kLayers = 4;
constexpr int64_t kHeads = 8;
constexpr int64_t kWidth = 256;

struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth};
  torch::nn::Linear proj{kWidth, kWidth};

  BlockImpl() {
    register_module("norm", norm);
    register_module("qkv", qkv);
    register_module("proj", proj);
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto heads = qkv(norm(x)).view({x.size(0), x.size(1), 3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    const auto out = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], /*attn_mask=*/{},
                                                      /*dropout_p=*/0.0, /*is_causal=*/true);
    return x + proj(out.transpose(1, 2).reshape_as(x));
  }
};
TORCH_MODULE(Block);

}  // namespace

int main() {
  torch::manual_seed(0);
  torch::nn::ModuleList blocks;
  for (int64_t i = 0; i < kLayers; ++i) {
    blocks->push_back(Block());
  }

  headscope::AttentionProfiler profiler;
  for (int step = 0; step < 5; ++step) {
    auto x = torch::randn({2, 512, kWidth});
    for (int64_t i = 0; i < kLayers; ++i) {
      const headscope::LayerScope scope("decoder." + std::to_string(i));
      x = blocks[static_cast<size_t>(i)]->as<Block>()->forward(x);
    }
    x.square().mean().backward();
    profiler.step();
  }
  std::cout << headscope::to_text(profiler.get_stats());
}
