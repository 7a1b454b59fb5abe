#include "report/patterns_to_value.h"

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

}  // namespace headscope::report
