#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

/// Traces recorded on GPUs, which are no part of the repository.
namespace headscope::test_support {

/// Where the trace called `name` lies: in the folder HEADSCOPE_TRACES, else beside the repository.
inline std::optional<std::string> real_trace(const std::string& name) {
  const char* const folder = std::getenv("HEADSCOPE_TRACES");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::filesystem::path path =
      std::filesystem::path(folder != nullptr ? folder : HEADSCOPE_SOURCE_DIR "/../shared/traces") /
      (name + ".json.gz");
  return std::filesystem::exists(path) ? std::optional(path.string()) : std::nullopt;
}

}  // namespace headscope::test_support

/// `const std::string& path` of a real trace, or the test is skipped.
// NOLINTBEGIN(bugprone-macro-parentheses): `path` is declared
#define HEADSCOPE_REAL_TRACE(path, name)                                                                      \
  const std::optional<std::string> path##_found = headscope::test_support::real_trace(name);                  \
  if (!path##_found) {                                                                                        \
    GTEST_SKIP() << "no recorded trace " << (name) << ": set HEADSCOPE_TRACES to the folder that holds them"; \
  }                                                                                                           \
  const std::string& path = *path##_found
// NOLINTEND(bugprone-macro-parentheses)
