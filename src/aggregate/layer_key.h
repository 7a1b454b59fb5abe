#pragma once

#include <compare>
#include <cstdint>

namespace headscope::aggregate {

/// Unnamed layers that get a row each in a step; calls beyond them share the row `attention[*]`.
inline constexpr std::uint32_t kMaxUnnamedLayers = 512;

/// Which layer a row is about.
struct LayerKey {
  enum class Kind : std::uint8_t {
    kLabel,   ///< `value` is intern_layer's handle
    kNumber,  ///< `attention[value]`: the call's order within the step on its thread
    kOther,   ///< `attention[*]`
  };

  Kind kind = Kind::kOther;
  std::uint32_t value = 0;

  friend bool operator==(const LayerKey&, const LayerKey&) = default;
  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
};

}  // namespace headscope::aggregate
