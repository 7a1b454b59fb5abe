#pragma once

#include <cstddef>
#include <string>

#include "headscope/export.h"
#include "headscope/stats.h"
#include "headscope/value.h"

namespace headscope {

/// `stats` as plain data with the keys of docs/schema.md.
HEADSCOPE_EXPORT Value to_value(const Stats& stats);

/// `stats` as JSON. Integers above 2⁵³ are decimal strings, since most readers take numbers as doubles.
/// `indent` spaces a level; a negative one gives a single line.
HEADSCOPE_EXPORT std::string to_json(const Stats& stats, int indent = 2);

/// What to_text shows.
struct TextOptions {
  /// Rows of the layer table; the rest are summed in one line that says how many. 0: all.
  std::size_t max_rows = 40;
  /// Show the per-head table of the layers that match this glob; empty: of none.
  std::string heads_of = {};
  /// Width of the terminal in characters. Where the table is too wide, columns that hold the same in all
  /// rows are said once above it; then columns go from the right, then shape, phase, variant and dir,
  /// and are named below it. The layer, its time and share stay.
  std::size_t width = 120;
};

/// A readable table: the total, a row a layer, what is measured and what is modelled, diagnostics.
HEADSCOPE_EXPORT std::string to_text(const Stats& stats, const TextOptions& options = {});

}  // namespace headscope
