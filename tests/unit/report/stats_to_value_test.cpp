#include <gtest/gtest.h>

#include <string>

#include "headscope/metric.h"
#include "headscope/report.h"
#include "json_reader.h"
#include "source_file.h"
#include "stats_builders.h"

namespace headscope::report {
namespace {

Value row_of(const AttentionRow& row) {
  const Value stats = to_value(stats_of({row}));
  return std::get<Value::List>(member(stats, "attention_breakdown").data()).front();
}

TEST(StatsToValue, SectionsThatAreNotMadeAreNullWithAReason) {
  const Value stats = to_value(Stats{});
  const Value reasons = member(member(stats, "meta"), "absent_sections");
  for (const char* section : {"roofline", "patterns", "tolerance", "replay", "comparison", "recommendations"}) {
    EXPECT_TRUE(has_member(stats, section)) << section;
    EXPECT_TRUE(member(stats, section).is_null()) << section;
    EXPECT_FALSE(member(reasons, section).is_null()) << section;
  }
}

TEST(StatsToValue, EveryNullSectionHasAReason) {
  const Value stats = to_value(Stats{});
  const Value reasons = member(member(stats, "meta"), "absent_sections");
  for (const auto& [key, value] : std::get<Value::Object>(stats.data())) {
    EXPECT_EQ(value.is_null(), has_member(reasons, key)) << key;
  }
}

TEST(StatsToValue, EveryAbsentKeyIsAKeyOfItsSection) {
  const Value value = to_value(stats_of({a_row("a")}));
  const Value absent = member(member(value, "meta"), "absent_keys");
  for (const auto& [path, reason] : std::get<Value::Object>(absent.data())) {
    Value section = value;
    std::string key = path;
    for (auto dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
      section = member(section, key.substr(0, dot));
      if (const auto* list = std::get_if<Value::List>(&section.data())) {
        section = Value(list->front());
      }
      key = key.substr(dot + 1);
    }
    EXPECT_TRUE(has_member(section, key)) << path;
    EXPECT_TRUE(member(section, key).is_null()) << path;
  }
}

TEST(StatsToValue, RowHoldsEveryMetricOfTheCatalogue) {
  const Value row = row_of(a_row("a"));
  for (const Metric& metric : metrics()) {
    EXPECT_TRUE(has_member(row, metric.id)) << metric.id;
  }
}

TEST(StatsToValue, ProvenanceNamesExactlyTheKnownFigures) {
  const Value row = row_of(a_row("a").time_us(5).bytes(1'000, std::nullopt));
  const Value provenance = member(row, "provenance");
  for (const Metric& metric : metrics()) {
    EXPECT_EQ(has_member(provenance, metric.id), !member(row, metric.id).is_null()) << metric.id;
  }
}

TEST(StatsToValue, SizeThatDoesNotVaryIsANumber) { EXPECT_EQ(member(row_of(a_row("a")), "q_len"), Value(128)); }

TEST(StatsToValue, SizeThatVariesIsARange) {
  const Value expected = Value::Object{{"min", 129}, {"max", 256}, {"mean", 192.5}};
  EXPECT_EQ(member(row_of(a_row("a").kv_len({129, 256, 192.5})), "kv_len"), expected);
}

TEST(StatsToValue, TimeOfASingleCallHasNoQuantiles) {
  const Value time = member(row_of(a_row("a").time_us(5)), "time_ns");
  EXPECT_EQ(member(time, "total"), Value(5'000));
  EXPECT_TRUE(member(time, "p50").is_null());
  EXPECT_EQ(member(time, "source"), Value("host"));
}

TEST(StatsToValue, SumsBeyond64BitsStayExact) {
  const Count large = (Count{1} << 100) + 1;
  EXPECT_EQ(member(row_of(a_row("a").flops(large)), "flops"), Value(large));
}

TEST(StatsToValue, HeadsAreNullWhenTheyWereNotAskedFor) {
  Stats stats = stats_of({a_row("a")});
  stats.meta.options.per_head = false;
  EXPECT_TRUE(member(to_value(stats), "heads").is_null());
}

TEST(StatsToValue, HeadsAreAnEmptyListWhenNoCallWasSeen) {
  EXPECT_EQ(member(to_value(Stats{}), "heads"), Value(Value::List{}));
}

TEST(StatsToValue, KeptCallsAreListed) {
  Stats stats;
  CallRow call;
  call.call_id = 7;
  call.time = Nanoseconds(1'000);
  call.bytes = 3'000;
  call.bytes_materialized = 0;
  stats.calls = {call};
  const Value calls = member(to_value(stats), "calls");
  const Value& first = std::get<Value::List>(calls.data()).front();
  EXPECT_EQ(member(first, "call_id"), Value(std::uint64_t{7}));
  EXPECT_EQ(member(first, "gb_per_s"), Value(3.0));
  EXPECT_TRUE(member(first, "forward_call_id").is_null());
}

TEST(StatsToValue, HeadDerivesItsBandwidth) {
  const Value heads = member(to_value(a_small_model()), "heads");
  EXPECT_EQ(member(std::get<Value::List>(heads.data()).front(), "gb_per_s"), Value(786'432.0 / 50'000.0));
}

TEST(StatsToJson, ReadsBackAsJson) {
  const Value json = JsonReader::read(to_json(a_small_model()));
  EXPECT_EQ(member(json, "schema_version"), Value(Stats::kSchemaVersion));
}

TEST(StatsToJson, BigSumIsADecimalString) {
  const Value json = JsonReader::read(to_json(stats_of({a_row("a").flops(Count{1} << 64)}), -1));
  const Value rows = member(json, "attention_breakdown");
  EXPECT_EQ(member(std::get<Value::List>(rows.data()).front(), "flops"), Value("18446744073709551616"));
}

/// Each key is documented between backticks.
void expect_documented(const Value& value, const std::string& documentation) {
  for (const auto& [key, unused] : std::get<Value::Object>(value.data())) {
    EXPECT_NE(documentation.find("`" + key + "`"), std::string::npos) << key;
  }
}

TEST(StatsToValue, StepsAreNullWithAReasonUntilOneEnded) {
  const Value value = to_value(Stats{});
  EXPECT_TRUE(member(value, "steps").is_null());
  EXPECT_FALSE(member(member(member(value, "meta"), "absent_sections"), "steps").is_null());
}

TEST(StatsToJson, EveryKeyIsInTheSchemaOrAMetric) {
  const std::string documentation = source_file("docs/schema.md") + source_file("docs/metrics.md");
  Stats stats = a_small_model();
  stats.calls.emplace_back();
  stats.steps.emplace_back();
  stats.memory.devices.emplace_back();
  stats.memory.layers.emplace_back();
  stats.memory.spikes.push_back({.parts = {{"upcast", 1}}});
  const Value value = to_value(stats);
  expect_documented(value, documentation);
  for (const char* section : {"meta", "memory", "time", "diagnostics"}) {
    expect_documented(member(value, section), documentation);
  }
  for (const char* section : {"attention_breakdown", "heads", "calls", "steps"}) {
    const Value rows = member(value, section);
    expect_documented(std::get<Value::List>(rows.data()).front(), documentation);
  }
  expect_documented(member(member(value, "meta"), "options"), documentation);
  expect_documented(member(member(value, "time"), "gaps"), documentation);
  for (const char* list : {"devices", "layers", "spikes"}) {
    const Value rows = member(member(value, "memory"), list);
    expect_documented(std::get<Value::List>(rows.data()).front(), documentation);
  }
}

}  // namespace
}  // namespace headscope::report
