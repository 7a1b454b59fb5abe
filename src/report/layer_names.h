#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::report {

/// `name` in at most `limit` characters (at least 3), its middle replaced by "…". The first segment stays
/// where it is short; the end, which tells layers apart, gets the rest: "model.…3.self_attn".
std::string shorten_middle(std::string_view name, std::size_t limit);

/// `names` shortened to `preferred` characters, or to as many more as keep different names different.
std::vector<std::string> shorten_all(const std::vector<std::string>& names, std::size_t preferred);

/// "a, b, c and 4 more": different names in the order of their first appearance.
std::string list_names(const std::vector<std::string>& names, std::size_t most);

}  // namespace headscope::report
