#include "report/glob.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headscope::report {
namespace {

TEST(Glob, PatternWithoutWildcardMatchesOnlyItself) {
  EXPECT_TRUE(glob_match("decoder.3", "decoder.3"));
  EXPECT_FALSE(glob_match("decoder.3", "decoder.31"));
  EXPECT_FALSE(glob_match("decoder.3", "decoderx3") && glob_match("decoder.3", "xdecoder.3"));
}

TEST(Glob, StarMatchesAcrossDots) { EXPECT_TRUE(glob_match("*.3.*", "model.layers.3.self_attn")); }

TEST(Glob, StarMatchesNothing) { EXPECT_TRUE(glob_match("a*b", "ab")); }

TEST(Glob, QuestionMarkIsExactlyOneCharacter) {
  EXPECT_TRUE(glob_match("layer.?", "layer.7"));
  EXPECT_FALSE(glob_match("layer.?", "layer.17"));
  EXPECT_FALSE(glob_match("layer.?", "layer."));
}

TEST(Glob, StarBacktracksToALaterOccurrence) { EXPECT_TRUE(glob_match("*.attn", "block.attn.attn")); }

TEST(Glob, BracketsAreOrdinaryCharacters) { EXPECT_TRUE(glob_match("attention[*]", "attention[12]")); }

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(2'000, 'a')));
}

/// By the definition, without a memory of the last star.
bool by_definition(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) {
    return text.empty();
  }
  if (pattern.front() == '*') {
    return by_definition(pattern.substr(1), text) || (!text.empty() && by_definition(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
         by_definition(pattern.substr(1), text.substr(1));
}

std::vector<std::string> words(const std::string& letters, std::size_t longest) {
  std::vector<std::string> all = {""};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const char letter : letters) {
      if (all[i].size() < longest) {
        all.push_back(all[i] + letter);
      }
    }
  }
  return all;
}

TEST(Glob, AgreesWithTheDefinitionOnAllShortPatternsAndTexts) {
  for (const std::string& pattern : words("ab*?", 4)) {
    for (const std::string& text : words("ab", 4)) {
      ASSERT_EQ(glob_match(pattern, text), by_definition(pattern, text)) << pattern << " on " << text;
    }
  }
}

}  // namespace
}  // namespace headscope::report
