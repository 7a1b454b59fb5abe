#include <cmath>
#include <string>
#include <vector>

#include "headscope/error.h"
#include "headscope/metric.h"
#include "headscope/stats.h"
#include "report/glob.h"
#include "report/number_text.h"

namespace headscope {
namespace {

using report::grouped;
using report::three_digits;

constexpr const char* kLimits =
    "variant, forbid_variants, min_gb_per_s, max_p50_us, max_call_flops, max_total_flops, max_step_bytes, "
    "max_peak_bytes, max_score_bytes";

void require_limits(const Budget& budget) {
  const bool limits = budget.variant || !budget.forbid_variants.empty() || budget.min_gb_per_s || budget.max_p50_us ||
                      budget.max_call_flops || budget.max_total_flops || budget.max_step_bytes ||
                      budget.max_peak_bytes || budget.max_score_bytes;
  if (!limits) {
    throw Error(std::string("this Budget limits nothing, so every model would meet it: set at least one of ") +
                kLimits);
  }
  const auto require_number = [](const char* name, const std::optional<double>& limit) {
    if (limit && !(*limit >= 0.0 && std::isfinite(*limit))) {
      throw Error(std::string("Budget::") + name + " must be a finite number of at least 0");
    }
  };
  require_number("min_gb_per_s", budget.min_gb_per_s);
  require_number("max_p50_us", budget.max_p50_us);
}

bool selects(const Budget& budget, const AttentionRow& row) {
  return (!budget.layer || report::glob_match(*budget.layer, row.layer)) &&
         (!budget.phase || *budget.phase == row.phase) && (!budget.direction || *budget.direction == row.direction);
}

/// What tells rows of one layer apart.
std::string context_of(const AttentionRow& row) {
  return " (" + row.variant + ", " + std::string(to_string(row.phase)) + ", " + std::string(to_string(row.direction)) +
         ")";
}

class Check {
 public:
  Check(const Stats& stats, const Budget& budget) : stats_(stats), budget_(budget) {
    for (const AttentionRow& row : stats.attention_breakdown) {
      if (selects(budget, row)) {
        selected_.push_back(&row);
      }
    }
  }

  std::vector<Violation> run() && {
    if (selected_.empty()) {
      if (!budget_.allow_missing) {
        violations_.push_back({asked_layer(), "selection", asked_selection(), "no attention matched" + seen_layers()});
      }
      return std::move(violations_);
    }
    for (const AttentionRow* row : selected_) {
      check_row(*row);
    }
    check_sums();
    return std::move(violations_);
  }

 private:
  void check_row(const AttentionRow& row) {
    check_variant(row);
    if (budget_.min_gb_per_s) {
      const std::string asked = "≥ " + three_digits(*budget_.min_gb_per_s) + " GB/s";
      if (const auto rate = gb_per_s(row); !rate) {
        unknown(row, "min_gb_per_s", asked, "unknown: its time or bytes are not known");
      } else if (*rate < *budget_.min_gb_per_s) {
        violate(row, "min_gb_per_s", asked, three_digits(*rate) + " GB/s");
      }
    }
    check_median(row);
    check_call_flops(row);
    check_bytes(row, "max_peak_bytes", budget_.max_peak_bytes, row.peak_bytes);
    check_bytes(row, "max_score_bytes", budget_.max_score_bytes, row.score_bytes);
  }

  void check_variant(const AttentionRow& row) {
    const std::string measured =
        row.fallback_reason ? row.variant + " because of " + *row.fallback_reason : row.variant;
    if (budget_.variant && row.variant != *budget_.variant) {
      violate(row, "variant", *budget_.variant, measured);
    }
    for (const std::string& forbidden : budget_.forbid_variants) {
      if (row.variant == forbidden) {
        violate(row, "forbid_variants", "not " + forbidden, measured);
      }
    }
  }

  void check_median(const AttentionRow& row) {
    if (!budget_.max_p50_us) {
      return;
    }
    const std::string asked = "≤ " + three_digits(*budget_.max_p50_us) + " µs";
    const std::uint64_t samples = row.calls > 0 ? row.calls - 1 : 0;
    if (samples < budget_.min_samples) {
      unknown(row, "max_p50_us", asked,
              "unknown: " + std::to_string(samples) + " calls beside the first, min_samples is " +
                  std::to_string(budget_.min_samples));
    } else if (!row.time || !row.time->p50) {
      unknown(row, "max_p50_us", asked, "unknown: its time is not known");
    } else if (const double p50_us = static_cast<double>(row.time->p50->count()) / 1e3; p50_us > *budget_.max_p50_us) {
      violate(row, "max_p50_us", asked, three_digits(p50_us) + " µs");
    }
  }

  void check_call_flops(const AttentionRow& row) {
    if (!budget_.max_call_flops) {
      return;
    }
    const std::string asked = "≤ " + grouped(*budget_.max_call_flops) + " FLOP a call";
    if (!row.flops) {
      unknown(row, "max_call_flops", asked, "unknown: its FLOPs are not known");
    } else if (*row.flops > Count{*budget_.max_call_flops} * row.calls) {
      // Rounded up: the quotient rounded down could equal the limit.
      violate(row, "max_call_flops", asked, grouped((*row.flops + row.calls - 1) / Count{row.calls}) + " FLOP a call");
    }
  }

  void check_bytes(const AttentionRow& row, const char* limit, const std::optional<std::uint64_t>& asked_bytes,
                   const std::optional<std::int64_t>& measured) {
    if (!asked_bytes) {
      return;
    }
    const std::string asked = "≤ " + grouped(*asked_bytes) + " bytes";
    if (!measured) {
      unknown(row, limit, asked, "unknown: its memory was not measured");
    } else if (*measured > 0 && static_cast<std::uint64_t>(*measured) > *asked_bytes) {
      violate(row, limit, asked, grouped(static_cast<Count>(*measured)) + " bytes");
    }
  }

  void check_sums() {
    if (budget_.max_total_flops) {
      check_sum("max_total_flops", " FLOP", *budget_.max_total_flops, 1,
                [](const AttentionRow& row) { return row.flops; });
    }
    if (budget_.max_step_bytes) {
      const std::int64_t steps = stats_.time.steps;
      check_sum("max_step_bytes", " bytes a step", *budget_.max_step_bytes,
                steps > 0 ? static_cast<std::uint64_t>(steps) : 1,
                [](const AttentionRow& row) { return bytes_moved(row); });
    }
  }

  template <class Read>
  void check_sum(const char* limit, const char* unit, std::uint64_t asked_sum, std::uint64_t divisor, Read read) {
    Count sum = 0;
    std::size_t unknown_rows = 0;
    for (const AttentionRow* row : selected_) {
      const std::optional<Count> part = read(*row);
      sum += part.value_or(0);
      unknown_rows += part ? 0U : 1U;
    }
    const std::string asked = "≤ " + grouped(asked_sum) + unit;
    const std::string measured = grouped((sum + divisor - 1) / divisor) + unit;
    const std::string gaps = ", without " + std::to_string(unknown_rows) + " of " + std::to_string(selected_.size()) +
                             " rows whose figure is not known";
    if (sum > Count{asked_sum} * divisor) {
      violations_.push_back({asked_layer(), limit, asked, unknown_rows > 0 ? measured + gaps : measured});
    } else if (unknown_rows > 0 && !budget_.allow_missing) {
      violations_.push_back({asked_layer(), limit, asked, "unknown: " + measured + gaps});
    }
  }

  void violate(const AttentionRow& row, const char* limit, const std::string& asked, const std::string& measured) {
    violations_.push_back({row.layer, limit, asked, measured + context_of(row)});
  }

  void unknown(const AttentionRow& row, const char* limit, const std::string& asked, const std::string& measured) {
    if (!budget_.allow_missing) {
      violate(row, limit, asked, measured);
    }
  }

  [[nodiscard]] std::string asked_layer() const { return budget_.layer.value_or("*"); }

  [[nodiscard]] std::string asked_selection() const {
    std::string text = "attention of layer " + asked_layer();
    if (budget_.phase) {
      text += ", phase " + std::string(to_string(*budget_.phase));
    }
    if (budget_.direction) {
      text += ", direction " + std::string(to_string(*budget_.direction));
    }
    return text;
  }

  [[nodiscard]] std::string seen_layers() const {
    constexpr std::size_t kMaxNamed = 5;
    if (stats_.attention_breakdown.empty()) {
      return ": no attention was seen at all";
    }
    std::vector<std::string> names;
    for (const AttentionRow& row : stats_.attention_breakdown) {
      std::string name = row.layer + context_of(row);
      if (names.empty() || names.back() != name) {
        names.push_back(std::move(name));
      }
    }
    std::string text = "; seen were ";
    for (std::size_t i = 0; i < names.size() && i < kMaxNamed; ++i) {
      text += (i > 0 ? ", " : "") + names[i];
    }
    return names.size() > kMaxNamed ? text + " and " + std::to_string(names.size() - kMaxNamed) + " more" : text;
  }

  const Stats& stats_;
  const Budget& budget_;
  std::vector<const AttentionRow*> selected_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> Stats::check(const Budget& budget) const {
  require_limits(budget);
  return Check(*this, budget).run();
}

std::string to_string(const Violation& violation) {
  return violation.layer + ": " + violation.limit + ": asked " + violation.asked + ", measured " + violation.measured;
}

}  // namespace headscope
