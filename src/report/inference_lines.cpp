#include "report/inference_lines.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "report/layer_names.h"
#include "report/number_text.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

constexpr std::size_t kMaxCaches = 4;
constexpr std::size_t kMaxStages = 6;

void append(std::string& line, const std::string& part) { line += (line.empty() ? "" : " · ") + part; }

std::string counted(Count count, std::string_view one, std::string_view many) {
  return grouped(count) + " " + std::string(count == 1 ? one : many);
}

std::string generation(const RequestSection& requests) {
  std::string line;
  if (requests.prompts && *requests.prompts > 0 && requests.prompt_tokens) {
    append(line, counted(*requests.prompts, "prompt", "prompts") + " of " +
                     counted(*requests.prompt_tokens, "token", "tokens") + " in all");
  }
  if (requests.generated_tokens && *requests.generated_tokens > 0) {
    append(line, counted(*requests.generated_tokens, "token", "tokens") + " decoded");
  }
  if (requests.to_first_token) {
    append(line, "attention to the first token " + duration(*requests.to_first_token));
  }
  if (requests.between_tokens) {
    append(line, "between tokens " + duration(*requests.between_tokens));
  }
  return line.empty() ? line : "generation: " + line;
}

std::string by_position(const PositionSeries& series) {
  const auto slope = Nanoseconds(static_cast<std::int64_t>(std::max(series.fit->ns_per_1000_tokens, 0.0)));
  std::string line = std::string(to_string(series.phase)) + " by key length (" + series.variant +
                     ", a layer's call): ~" + duration(slope) + " more for each 1,000 keys";
  std::uint64_t outliers = 0;
  for (const PositionBin& bin : series.bins) {
    outliers += bin.outliers.value_or(0);
  }
  if (outliers > 0) {
    append(line, counted(outliers, "call", "calls") + " above three times the median");
  }
  return line;
}

std::string cache(const KvCacheRow& row) {
  std::string line;
  if (row.used_tokens) {
    std::string used = grouped(static_cast<Count>(*row.used_tokens)) + " tokens used";
    if (row.occupancy) {
      used += ", " + percent(*row.occupancy) + " of " + row.occupancy_of;
    }
    append(line, used);
  }
  if (row.block_occupancy) {
    append(line, percent(*row.block_occupancy) + " of blocks used" +
                     (row.token_occupancy ? ", " + percent(*row.token_occupancy) + " of their slots" : ""));
  }
  if (row.reserved_bytes) {
    append(line, si(static_cast<double>(*row.reserved_bytes), "B") + " reserved");
  }
  if (row.bytes_per_token) {
    append(line, si(*row.bytes_per_token, "B") + " a token");
  }
  if (row.padding_share && *row.padding_share > 0.0) {
    append(line, percent(*row.padding_share) + " padding");
  }
  return "KV cache " + shorten_middle(valid_utf8(row.cache), 32) + (row.freed ? " (gone): " : ": ") + line;
}

std::string stages(const std::vector<StageRow>& rows) {
  std::string line;
  for (std::size_t i = 0; i < std::min(rows.size(), kMaxStages); ++i) {
    append(line, valid_utf8(rows[i].stage) + " " + duration(rows[i].time) +
                     (rows[i].wall_share ? " (" + percent(*rows[i].wall_share) + ")" : ""));
  }
  return "stages: " + line;
}

}  // namespace

std::vector<std::string> inference_lines(const Stats& stats) {
  std::vector<std::string> lines;
  if (stats.requests) {
    if (std::string line = generation(*stats.requests); !line.empty()) {
      lines.push_back(std::move(line));
    }
  }
  for (const PositionSeries& series : stats.positions) {
    if (!series.layer && series.fit) {
      lines.push_back(by_position(series));
    }
  }
  std::size_t shown = 0;
  for (const KvCacheRow& row : stats.kv_cache) {
    if (row.layer.empty() && shown++ < kMaxCaches) {
      lines.push_back(cache(row));
    }
  }
  if (shown > kMaxCaches) {
    lines.push_back("and " + counted(shown - kMaxCaches, "KV cache", "KV caches") + " more");
  }
  if (!stats.stages.empty()) {
    lines.push_back(stages(stats.stages));
  }
  return lines;
}

}  // namespace headscope::report
