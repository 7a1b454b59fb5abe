#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "records/attention_call.h"
#include "records/pattern_sample.h"

/// Pure: what sampled attention weights show.
namespace headscope::probe {

/// Keys `first` up to, not including, `end`.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

/// The keys that causality and window leave to query `query` of `q_len`, out of `kv_len`.
KeyRange keys_of_query(records::Causal causal, const records::Window& window, std::int64_t query, std::int64_t q_len,
                       std::int64_t kv_len) noexcept;

/// Where query `query` stands among the keys: its own key under upper-left causality, else so that the last query
/// stands at the last key, as in decoding.
std::int64_t position_of_query(records::Causal causal, std::int64_t query, std::int64_t q_len,
                               std::int64_t kv_len) noexcept;

/// Sets the scores outside `keys` to −∞: not admitted.
void admit_only(std::span<float> scores, const KeyRange& keys) noexcept;
/// Sets the scores where `mask` is false to −∞. Same length.
void apply_mask(std::span<float> scores, std::span<const bool> mask) noexcept;
/// Adds `mask`; a value at or below `lowest` ÷ 2 takes its key out, as does −∞. `lowest`: the least finite value of the
/// mask's dtype. Same length.
void apply_mask(std::span<float> scores, std::span<const float> mask, float lowest) noexcept;

/// Reads rows of scores, one after the other. Keeps the memory that a row needs.
class RowReader {
 public:
  /// Adds to `sums` what softmax makes of `scores`, in which −∞ stands for a key that is not admitted (the weights are
  /// fp32, sums of them double). `position`: where the query stands among the keys; std::nullopt when keys belong to
  /// another sequence. A row with fewer than two admitted keys, or with a score that is no number, adds nothing.
  /// O(keys).
  void read(std::span<const float> scores, std::optional<std::int64_t> position, records::HeadSample& sums);

 private:
  std::vector<float> weights_;  // of the row, 0 where not admitted
  std::vector<float> order_;
};

/// Fewest of `weights` whose sum reaches `share`; reorders them. All of them when their sum does not.
std::size_t fewest_that_hold(std::span<float> weights, double share) noexcept;

/// Bin of a key that lies `distance` before the query (negative: after it).
std::size_t distance_bin(std::int64_t distance) noexcept;

}  // namespace headscope::probe
