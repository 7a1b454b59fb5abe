#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::records {

/// Bins of the distance from a query back to a key: 0, then 1, 2–3, 4–7, … (a bin a power of two) for earlier keys,
/// then the same for later ones.
inline constexpr std::size_t kDistancesEachWay = 24;
inline constexpr std::size_t kDistanceBins = 1 + 2 * kDistancesEachWay;

/// Sums over the sampled rows of one head; a row is what one query gives its keys. Rows with fewer than two admitted
/// keys are left out: they have no choice.
struct HeadSample {
  std::uint64_t rows = 0;
  double entropy = 0;           ///< H ÷ ln(admitted keys), H in nats
  double effective_tokens = 0;  ///< exp(H)
  double sink_mass = 0;         ///< of the first admitted key
  double local_mass = 0;        ///< of the 32 admitted keys nearest the query
  double keys_95 = 0;           ///< fewest keys that hold 95 % of the mass
  double attended_share = 0;    ///< keys_95 ÷ admitted keys
  double admitted_keys = 0;
  std::array<double, kDistanceBins> mass_by_distance{};

  void add(const HeadSample& other) noexcept;
};

inline void HeadSample::add(const HeadSample& other) noexcept {
  rows += other.rows;
  entropy += other.entropy;
  effective_tokens += other.effective_tokens;
  sink_mass += other.sink_mass;
  local_mass += other.local_mass;
  keys_95 += other.keys_95;
  attended_share += other.attended_share;
  admitted_keys += other.admitted_keys;
  for (std::size_t bin = 0; bin < kDistanceBins; ++bin) {
    mass_by_distance[bin] += other.mass_by_distance[bin];
  }
}

/// What the sampled rows of one call show.
struct PatternSample {
  std::vector<HeadSample> heads;
  /// Keys stand in another sequence than queries: there is no distance. `mass_by_distance` is by place from the first
  /// key, `local_mass` is 0.
  bool cross = false;
};

/// Why a call that was to be sampled was not.
enum class NotSampled : std::uint8_t {
  kNone,
  kBudget,          ///< the step's budget of scores was used up
  kPaged,           ///< keys lie in pages
  kLengths,         ///< lengths of the sequences were not read
  kHiddenOperands,  ///< projections inside the op, or a cache that is no argument
  kShape,           ///< operands or scores in a form that is not read
  kCapture,         ///< a CUDA graph was being captured, or torch does not tell
  kFailed,          ///< an error, counted in hook_errors
};
inline constexpr std::size_t kNotSampledReasons = static_cast<std::size_t>(NotSampled::kFailed) + 1;

}  // namespace headscope::records
