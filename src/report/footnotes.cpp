#include "report/footnotes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "headscope/metric.h"
#include "report/layer_names.h"
#include "report/number_text.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

using Notes = std::vector<std::string>;

constexpr std::size_t kMaxNamed = 4;

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : std::string(separator)) + part;
  }
  return text;
}

/// The layers of the rows that a note is about, by what the note says of them.
std::map<std::string, std::vector<std::string>> layers_by(const Stats& stats, auto reason_of) {
  std::map<std::string, std::vector<std::string>> layers;
  for (const AttentionRow& row : stats.attention_breakdown) {
    if (const std::string reason = reason_of(row); !reason.empty()) {
      layers[reason].push_back(shorten_middle(valid_utf8(row.layer), 32));
    }
  }
  return layers;
}

/// How the text names a metric; empty for one that it does not show.
std::string_view label_of(const Metric& metric) {
  const bool in_summary = metric.id == "flops" || metric.id == "bytes";
  return metric.heading.empty() && in_summary ? metric.id : metric.heading;
}

void note_provenance(const Stats& stats, Notes& notes) {
  std::map<Provenance, std::vector<std::string>> labels;
  for (const Metric& metric : metrics()) {
    if (label_of(metric).empty()) {
      continue;
    }
    std::set<Provenance> found;
    for (const AttentionRow& row : stats.attention_breakdown) {
      if (!metric.read(row).is_null()) {
        found.insert(provenance_of(metric, row));
      }
    }
    for (const Provenance provenance : found) {
      labels[provenance].emplace_back(label_of(metric));
    }
  }
  std::vector<std::string> parts;
  for (const auto& [provenance, names] : labels) {
    const std::string mark = provenance == Provenance::kEstimated ? " (~)" : "";
    parts.push_back(std::string(to_string(provenance)) + mark + ": " + joined(names, ", "));
  }
  if (!parts.empty()) {
    notes.push_back(joined(parts, " · ") + " · –: unknown");
  }
}

void note_clock(const Stats& stats, Notes& notes) {
  const auto devices = layers_by(stats, [](const AttentionRow& row) {
    return row.time && row.time->source == TimeSource::kHost ? row.device : std::string();
  });
  const std::string& reason = stats.diagnostics.device_timing_reason;
  for (const auto& [device, layers] : devices) {
    const bool is_cpu = device.starts_with("cpu");
    std::string note = "time on " + device + " is host time (wall time of the ops)";
    if (!is_cpu) {
      note += ", not device time" + (reason.empty() ? "" : ": " + reason);
    }
    notes.push_back(std::move(note));
  }
}

void note_mixed_time(const Stats& stats, Notes& notes) {
  const auto ops = layers_by(stats, [](const AttentionRow& row) { return row.time_is_attention ? "" : row.op; });
  for (const auto& [op, layers] : ops) {
    notes.push_back("time of " + op +
                    " holds work besides attention, so its TFLOP/s is unknown: " + list_names(layers, kMaxNamed));
  }
}

void note_masks(const Stats& stats, Notes& notes) {
  const auto masks = layers_by(stats, [](const AttentionRow& row) {
    return row.mask == "opaque" || row.mask == "unseen" || row.mask == "mixed" ? row.mask : std::string();
  });
  for (const auto& [mask, layers] : masks) {
    const std::string_view pairs = mask == "mixed" ? "FLOPs of some calls count" : "FLOPs count";
    notes.push_back("mask " + mask + ": " + std::string(pairs) +
                    " every pair as admitted: " + list_names(layers, kMaxNamed));
  }
}

void note_layer_names(const Stats& stats, Notes& notes) {
  if (std::ranges::any_of(stats.attention_breakdown, &AttentionRow::layer_by_order)) {
    notes.emplace_back(
        "layers are named by the order of the model's attention modules, since no module hook ran (compiled code): "
        "estimated");
  }
}

void note_fallbacks(const Stats& stats, Notes& notes) {
  const auto reasons =
      layers_by(stats, [](const AttentionRow& row) { return row.fallback_reason.value_or(std::string()); });
  for (const auto& [reason, layers] : reasons) {
    notes.push_back("sdpa fell to math: " + reason + ": " + list_names(layers, kMaxNamed));
  }
}

void note_not_observable(const Stats& stats, Notes& notes) {
  for (const NotObservable& item : stats.diagnostics.not_observable) {
    notes.push_back("not observable: " + item.what + ": " + item.reason);
  }
}

void note_counters(const Diagnostics& diagnostics, Notes& notes) {
  const auto note = [&notes](std::uint64_t count, std::string_view text) {
    if (count > 0) {
      notes.push_back(grouped(count) + " " + std::string(text));
    }
  };
  note(diagnostics.calls_failed, "calls raised an error; they are in no row");
  note(diagnostics.chains_unfinished, "softmaxes of a product without a second product; they are in no row");
  note(diagnostics.calls_beyond_labels, "unnamed calls share the row attention[*] (more than 512 in a step)");
  note(diagnostics.calls_untimed, "calls have no time, since the device's records of them are missing");
  note(diagnostics.kernels_unmatched.value_or(0), "kernels and copies have no launch, and so no call");
  note(diagnostics.kernels_of_unknown_graphs.value_or(0),
       "kernels ran in CUDA graphs captured before the profiler started: their ops are not known");
  note(diagnostics.records_dropped.value_or(0), "records of the device were lost");
  note(diagnostics.hook_errors, "failures inside the profiler; those ops ran unprofiled");
  if (diagnostics.calls_seen > diagnostics.calls_attributed) {
    note(diagnostics.calls_seen - diagnostics.calls_attributed, "calls seen are in no row");
  }
}

void note_overhead(const Diagnostics& diagnostics, Notes& notes) {
  if (!diagnostics.overhead) {
    return;
  }
  std::string note = "own overhead " + duration(*diagnostics.overhead);
  if (diagnostics.overhead_share) {
    note += " (" + percent(*diagnostics.overhead_share) + " of wall)";
  }
  notes.push_back(std::move(note));
}

}  // namespace

std::vector<std::string> footnotes(const Stats& stats) {
  Notes notes;
  note_provenance(stats, notes);
  note_clock(stats, notes);
  note_mixed_time(stats, notes);
  note_layer_names(stats, notes);
  note_masks(stats, notes);
  note_fallbacks(stats, notes);
  note_not_observable(stats, notes);
  note_counters(stats.diagnostics, notes);
  note_overhead(stats.diagnostics, notes);
  return notes;
}

std::vector<std::string> advice_without_calls(const Stats& stats) {
  Notes notes = {"Did the model run between start and stop, and not while the profiler was paused?"};
  if (stats.meta.options.threads == Threads::kCurrent) {
    notes.emplace_back("Only the thread that started the profiler is seen (threads: current); use all threads.");
  }
  if (stats.meta.options.eager == Eager::kOff) {
    notes.emplace_back("Hand-written attention is not observed (eager: off); use basic.");
  }
  notes.emplace_back("An attention op of another library must be registered (register_attention_op).");
  note_not_observable(stats, notes);
  note_counters(stats.diagnostics, notes);
  return notes;
}

}  // namespace headscope::report
