#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "records/attention_call.h"

namespace headscope::capture::trace {

/// Forwards that a backward pass may repeat (activation checkpointing): equal calls last in, first out, as a backward
/// pass walks through a model. OpenForwards does the same for calls as they run; here all calls are kept.
class RepeatedForwards {
 public:
  void open(const records::AttentionCall& call, std::size_t at) { forwards_[key_of(call)].push_back(at); }

  /// The last open forward that `call` repeats; it is open no longer.
  std::optional<std::size_t> take(const records::AttentionCall& call) {
    const auto found = forwards_.find(key_of(call));
    if (found == forwards_.end() || found->second.empty()) {
      return std::nullopt;
    }
    const std::size_t at = found->second.back();
    found->second.pop_back();
    return at;
  }

  /// The backward of forward `call` has run.
  void close(const records::AttentionCall& call, std::size_t at) {
    const auto found = forwards_.find(key_of(call));
    if (found != forwards_.end() && !found->second.empty() && found->second.back() == at) {
      found->second.pop_back();
    }
  }

 private:
  using Key = std::tuple<const records::OpInfo*, std::uint32_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t>;

  static Key key_of(const records::AttentionCall& call) {
    const records::Geometry& g = call.geometry;
    return {call.op, call.layer.label, g.batch, g.heads, g.kv_heads, g.q_len, g.kv_len, g.head_dim, g.head_dim_v};
  }

  std::map<Key, std::vector<std::size_t>> forwards_;
};

}  // namespace headscope::capture::trace
