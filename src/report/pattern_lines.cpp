#include "report/pattern_lines.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "report/layer_names.h"
#include "report/number_text.h"
#include "report/utf8.h"

namespace headscope::report {
namespace {

constexpr std::size_t kMaxAlerts = 4;

std::string words(std::string_view key) {
  std::string text(key);
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string classes(const std::vector<HeadPattern>& heads) {
  std::map<PatternClass, std::uint64_t> counts;
  for (const HeadPattern& head : heads) {
    ++counts[head.pattern];
  }
  std::string line;
  for (const auto& [pattern, count] : counts) {
    line += (line.empty() ? "" : " · ") + grouped(count) + " " + words(to_string(pattern));
  }
  return "patterns of " + grouped(heads.size()) + " heads: " + line;
}

std::string collapse(const PatternAlert& alert) {
  return "head " + std::to_string(alert.head) + " of " + shorten_middle(valid_utf8(alert.layer), 32) +
         " collapsed to " + (alert.collapsed_to == "uniform" ? "uniform" : "one token") + " at step " +
         std::to_string(alert.step) + ": entropy " + percent(alert.entropy_before) + " → " + percent(alert.entropy) +
         " of the most that it could be";
}

}  // namespace

std::vector<std::string> pattern_lines(const PatternSection& section) {
  std::vector<std::string> lines;
  if (!section.heads.empty()) {
    lines.push_back(classes(section.heads));
  }
  for (std::size_t i = 0; i < std::min(section.alerts.size(), kMaxAlerts); ++i) {
    lines.push_back(collapse(section.alerts[i]));
  }
  if (section.alerts.size() > kMaxAlerts) {
    lines.push_back("and " + grouped(section.alerts.size() - kMaxAlerts) + " more heads that collapsed");
  }
  for (const UnsampledCalls& calls : section.not_sampled) {
    lines.push_back(grouped(calls.calls) + (calls.calls == 1 ? " call has" : " calls have") +
                    " no pattern: " + calls.reason);
  }
  return lines;
}

std::string tolerance_line(const ToleranceSection& section) {
  std::map<std::string, std::uint64_t> counts;
  double saved = 0;
  double all = 0;
  for (const HeadTolerance& head : section.heads) {
    all += head.kv_bytes;
    if (head.cheapest) {
      ++counts[head.cheapest->setting];
      saved += head.cheapest->saved_bytes;
    }
  }
  std::string line;
  for (const auto& [setting, heads] : counts) {
    line += (line.empty() ? "" : " · ") + grouped(heads) + " " + words(setting);
  }
  if (line.empty()) {
    return "no head does with less at an error of " + percent(section.bound);
  }
  return "at an error of " + percent(section.bound) + " heads do with: " + line + "; together " + percent(saved / all) +
         " less of K and V to read";
}

}  // namespace headscope::report
