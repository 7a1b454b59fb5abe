#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace headscope::report {

/// Text of a file by its path from the root of the sources.
inline std::string source_file(const std::string& path) {
  const auto root = std::filesystem::path(__FILE__).parent_path() / ".." / ".." / "..";
  std::ifstream file(root / path, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << path;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace headscope::report
