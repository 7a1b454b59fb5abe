#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "headscope/metric.h"
#include "headscope/stats.h"
#include "report/text_table.h"

namespace headscope::report {

/// "–": unknown.
inline constexpr std::string_view kUnknownText = "–";

/// A figure as text by its metric's unit: `~` before an estimated one, "–" where it is unknown.
std::string figure_text(const Metric& metric, const Figures& figures);

/// A row a row of `attention_breakdown`, with the metrics that have a heading. Beyond `max_rows` (0: no
/// limit) those with most attention time are shown, in their order, and the last row sums the rest.
TextTable layer_table(const Stats& stats, std::size_t max_rows);

/// A row a head of the layers that match `glob`; no rows when none does.
TextTable head_table(const Stats& stats, std::string_view glob);

/// Batch × heads(kv heads) × queries→keys × head dim(/value dim): "1×12(4)×128→128×64".
std::string shape_text(const AttentionRow& row);

}  // namespace headscope::report
