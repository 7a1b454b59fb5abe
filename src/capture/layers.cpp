#include "capture/layers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace headscope {
namespace {

constexpr std::uint32_t kChunk = 1024;
constexpr std::uint32_t kChunks = 1024;

using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, bool>;

Key key_of(const LayerInfo& info) {
  constexpr std::int64_t kAbsent = -1;
  return {info.name, info.index.value_or(kAbsent), info.heads.value_or(kAbsent), info.model_kv_heads.value_or(kAbsent),
          info.cross};
}

/// Grows by chunks, so that readers may follow a pointer while a writer adds.
struct Registry {
  std::mutex mutex;
  std::map<Key, std::uint32_t> handles;
  std::uint32_t size = 1;  // handle 0 means "no label"
  std::array<std::atomic<LayerInfo*>, kChunks> chunks{};
};

/// Leaked: hooks of other threads may read it while the process exits.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

/// Depth beyond kDepth is counted but not remembered, so that pops stay balanced.
struct LabelStack {
  static constexpr std::size_t kDepth = 64;
  std::array<std::uint32_t, kDepth> labels{};
  std::size_t depth = 0;
};

constinit thread_local LabelStack t_labels;

}  // namespace

std::uint32_t intern_layer(const LayerInfo& info) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto [position, added] = all.handles.try_emplace(key_of(info), all.size);
  if (!added) {
    return position->second;
  }
  if (all.size >= kChunk * kChunks) {
    all.handles.erase(position);
    return 0;
  }
  std::atomic<LayerInfo*>& chunk = all.chunks[all.size / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new LayerInfo[kChunk], std::memory_order_release);
  }
  chunk.load(std::memory_order_relaxed)[all.size % kChunk] = info;
  return all.size++;
}

void push_layer(std::uint32_t layer) noexcept {
  if (t_labels.depth < LabelStack::kDepth) {
    t_labels.labels[t_labels.depth] = layer;
  }
  ++t_labels.depth;
}

void pop_layer() noexcept {
  if (t_labels.depth > 0) {
    --t_labels.depth;
  }
}

LayerScope::LayerScope(std::string_view name) {
  LayerInfo info;
  info.name = name;
  push_layer(intern_layer(info));
}

LayerScope::~LayerScope() { pop_layer(); }

namespace capture {

const LayerInfo* layer_info(std::uint32_t label) noexcept {
  if (label == 0 || label >= kChunk * kChunks) {
    return nullptr;
  }
  const LayerInfo* chunk = registry().chunks[label / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + label % kChunk;
}

std::uint32_t current_layer() noexcept {
  if (t_labels.depth == 0) {
    return 0;
  }
  return t_labels.labels[std::min(t_labels.depth, LabelStack::kDepth) - 1];
}

}  // namespace capture
}  // namespace headscope
