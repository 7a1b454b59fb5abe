#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headscope/export.h"
#include "headscope/types.h"

namespace headscope {

/// What a model's attention may cost, for unit tests. The first group of fields selects rows, the
/// second limits each selected row (the `max_total_` and `max_step_` limits apply to their sum).
/// An absent field neither selects nor limits.
/// (Members have initialisers so that compilers do not warn of those a designated initialiser omits.)
struct Budget {
  /// Glob over layer names: `*` any run of characters, `?` one character.
  std::optional<std::string> layer = {};
  std::optional<Phase> phase = {};
  std::optional<Direction> direction = {};

  /// The only variant that the selected rows may have.
  std::optional<std::string> variant = {};
  std::vector<std::string> forbid_variants = {};
  std::optional<double> min_gb_per_s = {};
  /// Median time of a call in microseconds; needs `min_samples` calls beside the row's first.
  std::optional<double> max_p50_us = {};
  /// Largest mean FLOPs of a call within a row.
  std::optional<std::uint64_t> max_call_flops = {};
  std::optional<std::uint64_t> max_total_flops = {};
  /// Bytes moved (compulsory and materialised) by all selected rows, a step; the mean over the steps,
  /// one step when none was ended.
  std::optional<std::uint64_t> max_step_bytes = {};
  std::optional<std::uint64_t> max_peak_bytes = {};
  std::optional<std::uint64_t> max_score_bytes = {};

  std::uint64_t min_samples = 5;
  /// A selection without rows, or an unknown figure, is no violation.
  bool allow_missing = false;

  friend bool operator==(const Budget&, const Budget&) = default;
};

/// One limit that was not kept.
struct Violation {
  /// The row's layer, or the glob that was asked for (`*` without one) where it is about several rows.
  std::string layer;
  /// Name of the limit: the Budget's field; `selection` where no row was selected.
  std::string limit;
  std::string asked;
  std::string measured;

  friend bool operator==(const Violation&, const Violation&) = default;
};

/// One line: "decoder.3: max_p50_us: asked ≤ 100 µs, measured 250 µs (sdpa_math, decode, forward)".
HEADSCOPE_EXPORT std::string to_string(const Violation& violation);

}  // namespace headscope
