#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headscope/metric.h"
#include "headscope/report.h"
#include "report/footnotes.h"
#include "report/inference_lines.h"
#include "report/layer_names.h"
#include "report/number_text.h"
#include "report/pattern_lines.h"
#include "report/row_tables.h"
#include "report/text_table.h"
#include "report/utf8.h"

namespace headscope {
namespace {

using report::figure_text;

/// Lines of at most `width` characters where words allow, `indent` before all but the first.
void append_wrapped(std::string& out, std::string_view text, std::size_t width, std::string_view indent) {
  std::string line;
  bool has_word = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (has_word && report::display_width(line) + 1 + report::display_width(word) > width) {
      out += line + '\n';
      line = indent;
      has_word = false;
    }
    line += (has_word ? " " : "") + std::string(word);
    has_word = true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += line + '\n';
}

void append_notes(std::string& out, const std::vector<std::string>& notes, std::size_t width) {
  for (const std::string& note : notes) {
    append_wrapped(out, "· " + report::valid_utf8(note), width, "  ");
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : std::string(separator)) + part;
  }
  return text;
}

std::string text_of(std::string_view metric, const Figures& figures) {
  return figure_text(*find_metric(metric), figures);
}

std::string summary(const Stats& stats) {
  const Figures& total = stats.total;
  std::vector<std::string> parts;
  parts.push_back("attention: " + report::grouped(total.calls) + (total.calls == 1 ? " call" : " calls"));
  std::string time = text_of("time_ns", total);
  if (stats.time.attention_share) {
    time += " (" + report::percent(*stats.time.attention_share) + " of wall)";
  }
  parts.push_back(std::move(time));
  parts.push_back(total.flops ? text_of("flops", total) : "– FLOP");
  std::string bytes = total.bytes ? text_of("bytes", total) : "– B";
  if (!total.bytes_materialized) {
    bytes += " + – materialised";
  } else if (*total.bytes_materialized > 0) {
    bytes += " + " + text_of("bytes_materialized", total) + " materialised";
  }
  parts.push_back(std::move(bytes));
  parts.push_back(text_of("gb_per_s", total) + " GB/s");
  parts.push_back(text_of("tflop_per_s", total) + " TFLOP/s");
  return join(parts, " · ");
}

std::string time_line(const TimeSection& time) {
  std::vector<std::string> parts = {"wall " + report::duration(time.wall)};
  if (time.steps > 0) {
    parts.push_back(std::to_string(time.steps) + (time.steps == 1 ? " step" : " steps"));
  }
  parts.push_back("forward " + report::duration(time.forward));
  if (time.backward.count() > 0) {
    parts.push_back("backward " + report::duration(time.backward));
  }
  if (time.recompute.count() > 0) {
    parts.push_back("recompute " + report::duration(time.recompute));
  }
  if (time.recompute_flops_share && *time.recompute_flops_share > 0) {
    parts.push_back(report::percent(*time.recompute_flops_share) + " of FLOPs recomputed");
  }
  return join(parts, " · ");
}

/// The largest rise of memory in a call, and why; empty when none was measured.
std::string memory_line(const MemorySection& memory) {
  std::vector<std::string> parts;
  if (!memory.spikes.empty()) {
    const MemorySpike& spike = memory.spikes.front();
    std::string cause = spike.cause;
    std::ranges::replace(cause, '_', ' ');
    parts.push_back("largest rise of memory " + report::si(static_cast<double>(spike.bytes), "B") + " in " +
                    report::shorten_middle(report::valid_utf8(spike.layer), 32) + " (" + spike.variant + ", " +
                    std::string(to_string(spike.direction)) + "), mostly " + cause);
  }
  for (const DevicePeak& peak : memory.devices) {
    parts.push_back("scope peak on " + peak.device + " " + report::si(static_cast<double>(peak.peak_bytes), "B"));
  }
  return join(parts, " · ");
}

void append_table(std::string& out, report::TextTable table, std::size_t width) {
  const report::FittedTable fitted = report::fit(std::move(table), width);
  out += '\n';
  if (!fitted.same_in_all.empty()) {
    append_wrapped(out, "in all rows: " + join(fitted.same_in_all, " · "), width, "  ");
  }
  out += fitted.text;
  if (!fitted.left_out.empty()) {
    append_wrapped(out, "left out to fit " + std::to_string(width) + " columns: " + join(fitted.left_out, ", "), width,
                   "  ");
  }
}

void append_heads(std::string& out, const Stats& stats, const TextOptions& options) {
  report::TextTable table = report::head_table(stats, options.heads_of);
  if (table.rows.empty()) {
    append_wrapped(out,
                   "\nno heads of a layer that matches " + report::valid_utf8(options.heads_of) +
                       (stats.heads.empty() ? ": figures were not split over heads" : ""),
                   options.width, "  ");
    return;
  }
  append_table(out, std::move(table), options.width);
  append_wrapped(out, "time share: a head's part of its layer's time by admitted pairs, modelled", options.width, "  ");
}

}  // namespace

std::string to_text(const Stats& stats, const TextOptions& options) {
  std::string out;
  if (stats.total.calls == 0) {
    append_wrapped(out, "no attention was seen in " + report::duration(stats.time.wall), options.width, "");
    append_notes(out, report::advice_without_calls(stats), options.width);
    return out;
  }
  append_wrapped(out, summary(stats), options.width, "  ");
  append_wrapped(out, time_line(stats.time), options.width, "  ");
  if (const std::string line = memory_line(stats.memory); !line.empty()) {
    append_wrapped(out, line, options.width, "  ");
  }
  for (const std::string& line : report::inference_lines(stats)) {
    append_wrapped(out, line, options.width, "  ");
  }
  if (stats.patterns) {
    for (const std::string& line : report::pattern_lines(*stats.patterns)) {
      append_wrapped(out, line, options.width, "  ");
    }
  }
  if (stats.tolerance) {
    append_wrapped(out, report::tolerance_line(*stats.tolerance), options.width, "  ");
  }
  append_table(out, report::layer_table(stats, options.max_rows), options.width);
  if (!options.heads_of.empty()) {
    append_heads(out, stats, options);
  }
  out += '\n';
  append_notes(out, report::footnotes(stats), options.width);
  return out;
}

}  // namespace headscope
