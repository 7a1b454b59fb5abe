#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace headscope::report {

enum class Align : unsigned char { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
  /// Columns of the largest rank are left out first; those of rank 0 stay.
  int drop_rank = 0;
};

struct TextTable {
  std::vector<Column> columns;
  /// A cell a column.
  std::vector<std::vector<std::string>> rows;
  /// Stands below the rows; empty: none.
  std::vector<std::string> last_row;
};

struct FittedTable {
  /// Lines without trailing blanks, each with its newline.
  std::string text;
  /// "heading value" of columns left out because all rows hold the same.
  std::vector<std::string> same_in_all;
  /// Headings of the other columns left out, in the order in which they went.
  std::vector<std::string> left_out;
};

/// Lays the table out within `width` characters. Where it is too wide, columns go one by one by their
/// rank: first those whose value is the same in all rows, then the rest. What remains may still be
/// wider than `width`, since columns of rank 0 stay.
FittedTable fit(TextTable table, std::size_t width);

}  // namespace headscope::report
