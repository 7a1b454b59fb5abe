#include "report/text_table.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "report/utf8.h"

namespace headscope::report {
namespace {

constexpr std::size_t kGap = 2;

std::size_t width_of(const TextTable& table, std::size_t column) {
  std::size_t width = display_width(table.columns[column].heading);
  for (const auto& row : table.rows) {
    width = std::max(width, display_width(row[column]));
  }
  return table.last_row.empty() ? width : std::max(width, display_width(table.last_row[column]));
}

std::size_t width_of(const TextTable& table) {
  std::size_t width = 0;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    width += width_of(table, column) + (column > 0 ? kGap : 0);
  }
  return width;
}

bool same_in_all(const TextTable& table, std::size_t column) {
  if (table.rows.size() < 2) {
    return false;
  }
  const std::string& first = table.rows.front()[column];
  const bool last_agrees = table.last_row.empty() || table.last_row[column].empty() || table.last_row[column] == first;
  return last_agrees && std::ranges::all_of(table.rows, [&](const auto& row) { return row[column] == first; });
}

template <class Predicate>
std::optional<std::size_t> highest_rank(const TextTable& table, Predicate may_go) {
  std::optional<std::size_t> highest;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const int rank = table.columns[column].drop_rank;
    if (rank > 0 && may_go(column) && (!highest || rank > table.columns[*highest].drop_rank)) {
      highest = column;
    }
  }
  return highest;
}

void erase_column(TextTable& table, std::size_t column) {
  const auto at = static_cast<std::ptrdiff_t>(column);
  table.columns.erase(table.columns.begin() + at);
  for (auto& row : table.rows) {
    row.erase(row.begin() + at);
  }
  if (!table.last_row.empty()) {
    table.last_row.erase(table.last_row.begin() + at);
  }
}

class Renderer {
 public:
  explicit Renderer(const TextTable& table) : table_(table), widths_(table.columns.size()) {
    for (std::size_t column = 0; column < widths_.size(); ++column) {
      widths_[column] = width_of(table, column);
    }
  }

  std::string render() && {
    std::vector<std::string> headings;
    for (const Column& column : table_.columns) {
      headings.push_back(column.heading);
    }
    put(headings);
    for (std::size_t i = 0; i < width_of(table_); ++i) {
      text_ += "─";
    }
    text_ += '\n';
    for (const auto& row : table_.rows) {
      put(row);
    }
    if (!table_.last_row.empty()) {
      put(table_.last_row);
    }
    return std::move(text_);
  }

 private:
  void put(const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths_[column] - display_width(cells[column]), ' ');
      const bool left = table_.columns[column].align == Align::kLeft;
      line += std::string(column > 0 ? kGap : 0, ' ');
      line += left ? cells[column] + padding : padding + cells[column];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + '\n';
  }

  const TextTable& table_;
  std::vector<std::size_t> widths_;
  std::string text_;
};

}  // namespace

FittedTable fit(TextTable table, std::size_t width) {
  FittedTable out;
  while (width_of(table) > width) {
    if (const auto same = highest_rank(table, [&](std::size_t column) { return same_in_all(table, column); })) {
      out.same_in_all.insert(out.same_in_all.begin(), table.columns[*same].heading + ' ' + table.rows.front()[*same]);
      erase_column(table, *same);
    } else if (const auto any = highest_rank(table, [](std::size_t) { return true; })) {
      out.left_out.push_back(table.columns[*any].heading);
      erase_column(table, *any);
    } else {
      break;
    }
  }
  out.text = Renderer(table).render();
  return out;
}

}  // namespace headscope::report
