#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "aggregate/layer_key.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// A call as Stats::calls shows it. `call` holds no mask and no lengths; `costed.call` is null.
struct KeptCall {
  records::AttentionCall call;
  records::CostedCall costed;
  LayerKey layer;
  std::int64_t step = 0;
};

/// The last calls of one recording thread, up to a limit.
class KeptCalls {
 public:
  explicit KeptCalls(std::size_t limit) : limit_(limit) {}

  void add(const records::CostedCall& costed, LayerKey layer, std::int64_t step, bool memory);
  /// Of both, those with the largest call ids.
  void merge(const KeptCalls& other);
  /// By call id.
  [[nodiscard]] std::vector<KeptCall> in_order() const;

 private:
  std::size_t limit_;
  std::size_t oldest_ = 0;  // once full
  std::vector<KeptCall> calls_;
};

}  // namespace headscope::aggregate
