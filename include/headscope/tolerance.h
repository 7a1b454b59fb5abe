#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headscope {

/// What one cheaper setting does to a head.
struct ToleranceOfSetting {
  /// As in docs/patterns.md: "kv_float8_e4m3", "window_256", "top_64", …
  std::string setting;
  /// ‖o′ − o‖ ÷ ‖o‖ over the sampled rows, o the attention's output in fp32. Measured.
  double error = 0;
  /// Of the bytes of K and V that a call reads for this head. Modelled.
  double saved_bytes = 0;

  friend bool operator==(const ToleranceOfSetting&, const ToleranceOfSetting&) = default;
};

/// How much less one head can do with.
struct HeadTolerance {
  std::string layer;
  std::optional<std::int64_t> layer_index;
  std::int64_t head = 0;
  std::uint64_t rows = 0;
  /// Bytes of K and V that a call reads for this head: its share where heads share keys. Modelled.
  double kv_bytes = 0;
  std::vector<ToleranceOfSetting> settings;
  /// The setting that saves most with an error within the bound; std::nullopt where none saves anything.
  std::optional<ToleranceOfSetting> cheapest;

  friend bool operator==(const HeadTolerance&, const HeadTolerance&) = default;
};

/// Which heads tolerate less precision or fewer keys (Options::tolerance).
struct ToleranceSection {
  /// The largest error that is accepted.
  double bound = 0;
  std::uint64_t calls = 0;
  std::vector<HeadTolerance> heads;

  friend bool operator==(const ToleranceSection&, const ToleranceSection&) = default;
};

}  // namespace headscope
