#include "report/patterns_to_value.h"

#include <utility>
#include <vector>

namespace headscope::report {
namespace {

using Object = Value::Object;
using List = Value::List;

Object to_value(const HeadPattern& row) {
  return {{"layer", row.layer},
          {"layer_index", row.layer_index},
          {"head", row.head},
          {"rows", row.rows},
          {"first_step", row.first_step},
          {"last_step", row.last_step},
          {"pattern", to_string(row.pattern)},
          {"entropy", row.entropy},
          {"effective_tokens", row.effective_tokens},
          {"sink_mass", row.sink_mass},
          {"local_mass", row.local_mass},
          {"keys_95", row.keys_95},
          {"attended_share", row.attended_share},
          {"drift", row.drift}};
}

Object to_value(const PatternAlert& alert) {
  return {{"layer", alert.layer},
          {"layer_index", alert.layer_index},
          {"head", alert.head},
          {"step", alert.step},
          {"last_good_step", alert.last_good_step},
          {"collapsed_to", alert.collapsed_to},
          {"entropy_before", alert.entropy_before},
          {"entropy", alert.entropy}};
}

Object to_value(const UnsampledCalls& calls) { return {{"reason", calls.reason}, {"calls", calls.calls}}; }

Object to_value(const HeadTolerance& row) {
  Object errors;
  Object saved;
  for (const ToleranceOfSetting& setting : row.settings) {
    errors.emplace_back(setting.setting, setting.error);
    saved.emplace_back(setting.setting, setting.saved_bytes);
  }
  Object out{{"layer", row.layer},
             {"layer_index", row.layer_index},
             {"head", row.head},
             {"rows", row.rows},
             {"kv_bytes", row.kv_bytes},
             {"errors", std::move(errors)},
             {"saved_bytes", std::move(saved)}};
  Value cheapest;
  if (row.cheapest) {
    cheapest = Object{
        {"setting", row.cheapest->setting}, {"error", row.cheapest->error}, {"saved_bytes", row.cheapest->saved_bytes}};
  }
  out.emplace_back("cheapest", std::move(cheapest));
  return out;
}

template <class Row>
List list_of(const std::vector<Row>& rows) {
  List out;
  out.reserve(rows.size());
  for (const Row& row : rows) {
    out.emplace_back(to_value(row));
  }
  return out;
}

}  // namespace

Object to_value(const PatternSection& section) {
  return {{"baseline_step", section.baseline_step},
          {"last_step", section.last_step},
          {"calls", section.calls},
          {"sampling_ns", section.sampling},
          {"provenance", to_string(Provenance::kMeasured)},
          {"heads", list_of(section.heads)},
          {"alerts", list_of(section.alerts)},
          {"not_sampled", list_of(section.not_sampled)}};
}

Object to_value(const ToleranceSection& section) {
  return {{"bound", section.bound},
          {"calls", section.calls},
          {"error_provenance", to_string(Provenance::kMeasured)},
          {"saved_bytes_provenance", to_string(Provenance::kModelled)},
          {"heads", list_of(section.heads)}};
}

}  // namespace headscope::report
