#include "probe/attention_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace headscope::probe {
namespace {

constexpr float kNotAdmitted = -std::numeric_limits<float>::infinity();
constexpr double kMostOfTheMass = 0.95;
constexpr int kLocalKeys = 32;

/// Mass of the kLocalKeys admitted keys nearest to `position`, an earlier one before a later one as near.
double nearest_mass(std::span<const float> scores, std::span<const float> weights, std::int64_t position) noexcept {
  const auto end = static_cast<std::int64_t>(scores.size());
  std::int64_t before = std::min(position, end - 1);
  std::int64_t after = before + 1;
  double mass = 0;
  for (int taken = 0; taken < kLocalKeys;) {
    const bool takes_before = before >= 0 && (after >= end || position - before <= after - position);
    if (!takes_before && after >= end) {
      break;
    }
    const auto key = static_cast<std::size_t>(takes_before ? before-- : after++);
    if (scores[key] != kNotAdmitted) {
      mass += weights[key];
      ++taken;
    }
  }
  return mass;
}

}  // namespace

KeyRange keys_of_query(records::Causal causal, const records::Window& window, std::int64_t query, std::int64_t q_len,
                       std::int64_t kv_len) noexcept {
  const bool lower_right =
      causal == records::Causal::kLowerRight || (causal == records::Causal::kNone && window.lower_right);
  const std::int64_t diagonal = query + (lower_right ? kv_len - q_len : 0);
  KeyRange keys{0, kv_len};
  if (causal != records::Causal::kNone) {
    keys.end = std::min(keys.end, diagonal + 1);
  }
  if (window.left >= 0) {
    keys.first = std::max(keys.first, diagonal - window.left);
  }
  if (window.right >= 0) {
    keys.end = std::min(keys.end, diagonal + window.right + 1);
  }
  keys.end = std::max(keys.end, std::int64_t{0});
  keys.first = std::min(keys.first, keys.end);
  return keys;
}

std::int64_t position_of_query(records::Causal causal, std::int64_t query, std::int64_t q_len,
                               std::int64_t kv_len) noexcept {
  return causal == records::Causal::kUpperLeft ? query : query + kv_len - q_len;
}

void admit_only(std::span<float> scores, const KeyRange& keys) noexcept {
  std::fill(scores.begin(), scores.begin() + keys.first, kNotAdmitted);
  std::fill(scores.begin() + keys.end, scores.end(), kNotAdmitted);
}

void apply_mask(std::span<float> scores, std::span<const bool> mask) noexcept {
  for (std::size_t key = 0; key < scores.size(); ++key) {
    if (!mask[key]) {
      scores[key] = kNotAdmitted;
    }
  }
}

void apply_mask(std::span<float> scores, std::span<const float> mask, float lowest) noexcept {
  for (std::size_t key = 0; key < scores.size(); ++key) {
    scores[key] = mask[key] <= lowest / 2 ? kNotAdmitted : scores[key] + mask[key];
  }
}

void RowReader::read(std::span<const float> scores, std::optional<std::int64_t> position, records::HeadSample& sums) {
  std::size_t admitted = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  float highest = kNotAdmitted;
  for (std::size_t key = 0; key < scores.size(); ++key) {
    if (std::isnan(scores[key])) {
      return;
    }
    if (scores[key] == kNotAdmitted) {
      continue;
    }
    first = admitted++ == 0 ? key : first;
    last = key;
    highest = std::max(highest, scores[key]);
  }
  if (admitted < 2 || std::isinf(highest)) {
    return;
  }

  weights_.assign(scores.size(), 0.0F);
  order_.clear();
  double sum = 0;
  for (std::size_t key = first; key <= last; ++key) {
    if (scores[key] != kNotAdmitted) {
      weights_[key] = std::exp(scores[key] - highest);
      sum += weights_[key];
    }
  }
  double mean_score = 0;  // below the highest
  for (std::size_t key = first; key <= last; ++key) {
    if (scores[key] == kNotAdmitted) {
      continue;
    }
    if (weights_[key] > 0.0F) {
      mean_score += weights_[key] / sum * (scores[key] - highest);
    }
    weights_[key] = static_cast<float>(weights_[key] / sum);
    order_.push_back(weights_[key]);
  }

  // −Σ p ln p with ln p = score − highest − ln(sum); rounding may take it outside what it can be.
  const double entropy = std::clamp(std::log(sum) - mean_score, 0.0, std::log(static_cast<double>(admitted)));
  const auto keys_95 = static_cast<double>(fewest_that_hold(order_, kMostOfTheMass));
  ++sums.rows;
  sums.entropy += entropy / std::log(static_cast<double>(admitted));
  sums.effective_tokens += std::exp(entropy);
  sums.sink_mass += weights_[first];
  sums.keys_95 += keys_95;
  sums.attended_share += keys_95 / static_cast<double>(admitted);
  sums.admitted_keys += static_cast<double>(admitted);

  // A cache that is not full has keys after the query that no query may see.
  const std::int64_t origin = position ? std::min(*position, static_cast<std::int64_t>(last)) : 0;
  if (position) {
    sums.local_mass += nearest_mass(scores, weights_, origin);
  }
  for (std::size_t key = first; key <= last; ++key) {
    sums.mass_by_distance[distance_bin(origin - static_cast<std::int64_t>(key))] += weights_[key];
  }
}

std::size_t fewest_that_hold(std::span<float> weights, double share) noexcept {
  // Quickselect by mass: the half that the answer is not in is summed and left.
  std::size_t low = 0;
  std::size_t high = weights.size();
  double held = 0;  // by those before `low`, the largest
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    const auto begin = weights.begin();
    std::nth_element(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(middle),
                     begin + static_cast<std::ptrdiff_t>(high), std::greater<>{});
    const double larger =
        std::accumulate(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(middle), 0.0);
    if (held + larger >= share) {
      high = middle;
    } else {
      held += larger;
      low = middle;
    }
  }
  return high;
}

std::size_t distance_bin(std::int64_t distance) noexcept {
  if (distance == 0) {
    return 0;
  }
  const auto away = static_cast<std::uint64_t>(distance < 0 ? -distance : distance);
  const auto bin = std::min(static_cast<std::size_t>(std::bit_width(away)), records::kDistancesEachWay);
  return distance > 0 ? bin : records::kDistancesEachWay + bin;
}

}  // namespace headscope::probe
