#include "headscope/types.h"

#include "headscope/inference.h"
#include "headscope/patterns.h"

namespace headscope {

// The switches have no default, so that the compiler names a word that is missing.

std::string_view to_string(Provenance provenance) noexcept {
  switch (provenance) {
    case Provenance::kMeasured:
      return "measured";
    case Provenance::kModelled:
      return "modelled";
    case Provenance::kEstimated:
      return "estimated";
  }
  return "unknown";
}

std::string_view to_string(Direction direction) noexcept {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kBackward:
      return "backward";
    case Direction::kRecompute:
      return "recompute";
  }
  return "unknown";
}

std::string_view to_string(Phase phase) noexcept {
  switch (phase) {
    case Phase::kUnknown:
      return "unknown";
    case Phase::kPrefill:
      return "prefill";
    case Phase::kChunkedPrefill:
      return "chunked_prefill";
    case Phase::kDecode:
      return "decode";
    case Phase::kEncode:
      return "encode";
    case Phase::kCross:
      return "cross";
    case Phase::kMixed:
      return "mixed";
  }
  return "unknown";
}

std::string_view to_string(TimeSource source) noexcept {
  switch (source) {
    case TimeSource::kHost:
      return "host";
    case TimeSource::kDevice:
      return "device";
    case TimeSource::kEvents:
      return "events";
  }
  return "unknown";
}

std::string_view to_string(PatternClass pattern) noexcept {
  switch (pattern) {
    case PatternClass::kUniform:
      return "uniform";
    case PatternClass::kSink:
      return "sink";
    case PatternClass::kLocal:
      return "local";
    case PatternClass::kFewTokens:
      return "few_tokens";
    case PatternClass::kMixed:
      return "mixed";
  }
  return "unknown";
}

std::string_view to_string(PositionAxis axis) noexcept {
  switch (axis) {
    case PositionAxis::kKeyLength:
      return "key_length";
    case PositionAxis::kQueryBlock:
      return "query_block";
  }
  return "unknown";
}

}  // namespace headscope
