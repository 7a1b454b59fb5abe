#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace headscope::probe {

/// Scores that the rows of one call may have.
inline constexpr std::int64_t kMostScores = std::int64_t{1} << 21;

/// Which queries of a call are sampled: the same number in each of some evenly spaced sequences of its batch.
struct RowChoice {
  std::vector<std::int64_t> sequences;
  std::int64_t queries = 0;  ///< of each of them

  [[nodiscard]] std::int64_t rows() const noexcept { return static_cast<std::int64_t>(sequences.size()) * queries; }
};

/// `count` of 0..`of`−1, evenly spaced, the last one among them; all of them where there are not more.
inline std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t of) {
  count = std::min(count, of);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 1; i <= count; ++i) {
    chosen.push_back(i * of / count - 1);
  }
  return chosen;
}

/// At most `most_rows` rows, and no more than kMostScores allow, but one.
inline RowChoice choose_rows(std::int64_t most_rows, std::int64_t batch, std::int64_t heads, std::int64_t q_len,
                             std::int64_t kv_len) {
  const std::int64_t scores_of_row = std::max<std::int64_t>(heads * kv_len, 1);
  const std::int64_t rows = std::max<std::int64_t>(std::min(most_rows, kMostScores / scores_of_row), 1);
  RowChoice choice;
  choice.sequences = evenly_spaced(rows, batch);
  if (!choice.sequences.empty()) {
    choice.queries = std::min(rows / static_cast<std::int64_t>(choice.sequences.size()), q_len);
  }
  return choice;
}

}  // namespace headscope::probe
