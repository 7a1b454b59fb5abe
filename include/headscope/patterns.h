#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/export.h"
#include "headscope/types.h"

namespace headscope {

/// What a head's attention mostly is; docs/patterns.md holds the bounds.
enum class PatternClass : std::uint8_t {
  kUniform,    ///< spread over all keys alike
  kSink,       ///< most of it on the first key
  kLocal,      ///< most of it on the keys nearest the query
  kFewTokens,  ///< on a few keys, wherever they are
  kMixed,
};
HEADSCOPE_EXPORT std::string_view to_string(PatternClass pattern) noexcept;

/// One head's attention, from sampled rows of softmax(QKᵀ) in fp32; a row is what one query gives its keys. Means over
/// all sampled rows with at least two admitted keys. Measured.
struct HeadPattern {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::int64_t head = 0;
  std::uint64_t rows = 0;
  /// The first and the last step that was sampled.
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// H ÷ ln(admitted keys): 0 all on one key, 1 uniform.
  double entropy = 0;
  /// exp(H), H in nats: as many keys attended alike have the same entropy.
  double effective_tokens = 0;
  /// Mass of the first admitted key.
  double sink_mass = 0;
  /// Mass of the 32 admitted keys nearest the query; std::nullopt when keys belong to another sequence.
  std::optional<double> local_mass;
  /// Fewest keys that hold 95 % of the mass, and their share of the admitted keys.
  double keys_95 = 0;
  double attended_share = 0;
  PatternClass pattern = PatternClass::kMixed;
  /// √(Jensen–Shannon divergence, base 2) between the distributions over key distance of the first and the last sampled
  /// step: 0 the same, 1 apart. std::nullopt until a second step was sampled.
  std::optional<double> drift;

  friend bool operator==(const HeadPattern&, const HeadPattern&) = default;
};

/// A head that had a pattern and lost it.
struct PatternAlert {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::int64_t head = 0;
  /// The first sampled step that shows it, and the sampled step before it.
  std::int64_t step = 0;
  std::int64_t last_good_step = 0;
  /// "uniform" or "one_token".
  std::string collapsed_to;
  double entropy_before = 0;
  double entropy = 0;

  friend bool operator==(const PatternAlert&, const PatternAlert&) = default;
};

/// Calls that were to be sampled and were not.
struct UnsampledCalls {
  std::string reason;
  std::uint64_t calls = 0;

  friend bool operator==(const UnsampledCalls&, const UnsampledCalls&) = default;
};

/// Attention patterns of the sampled steps (Options::patterns).
struct PatternSection {
  /// The step that drift is measured against, and the last one that was sampled.
  std::int64_t baseline_step = 0;
  std::int64_t last_step = 0;
  std::uint64_t calls = 0;
  /// What sampling took on the program's threads; part of Diagnostics::overhead.
  Nanoseconds sampling{};
  std::vector<HeadPattern> heads;
  /// By step.
  std::vector<PatternAlert> alerts;
  std::vector<UnsampledCalls> not_sampled;

  friend bool operator==(const PatternSection&, const PatternSection&) = default;
};

}  // namespace headscope
