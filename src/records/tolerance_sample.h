#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headscope::records {

/// A cheaper way to attend.
struct ToleranceSetting {
  enum class Kind : std::uint8_t {
    kCastKv,      ///< K and V in a narrower dtype
    kCastQkv,     ///< Q as well
    kWindow,      ///< keys less than `size` away from the query
    kSinkWindow,  ///< the same, and the first kSinkKeys admitted keys
    kTopK,        ///< the `size` keys of the highest scores
  };
  enum class Cast : std::uint8_t { kNone, kBFloat16, kFloat8E4M3, kFloat8E5M2, kInt8PerToken };

  std::string_view name;
  Kind kind;
  Cast cast = Cast::kNone;
  std::int64_t size = 0;
};

inline constexpr std::int64_t kSinkKeys = 4;

inline constexpr std::array kToleranceSettings = [] {
  using Kind = ToleranceSetting::Kind;
  using Cast = ToleranceSetting::Cast;
  return std::to_array<ToleranceSetting>({
      {"kv_bfloat16", Kind::kCastKv, Cast::kBFloat16},
      {"kv_float8_e4m3", Kind::kCastKv, Cast::kFloat8E4M3},
      {"kv_float8_e5m2", Kind::kCastKv, Cast::kFloat8E5M2},
      {"kv_int8_per_token", Kind::kCastKv, Cast::kInt8PerToken},
      {"qkv_bfloat16", Kind::kCastQkv, Cast::kBFloat16},
      {"qkv_float8_e4m3", Kind::kCastQkv, Cast::kFloat8E4M3},
      {"qkv_float8_e5m2", Kind::kCastQkv, Cast::kFloat8E5M2},
      {"qkv_int8_per_token", Kind::kCastQkv, Cast::kInt8PerToken},
      {"window_64", Kind::kWindow, Cast::kNone, 64},
      {"window_256", Kind::kWindow, Cast::kNone, 256},
      {"window_1024", Kind::kWindow, Cast::kNone, 1024},
      {"sink_4_window_64", Kind::kSinkWindow, Cast::kNone, 64},
      {"sink_4_window_256", Kind::kSinkWindow, Cast::kNone, 256},
      {"sink_4_window_1024", Kind::kSinkWindow, Cast::kNone, 1024},
      {"top_16", Kind::kTopK, Cast::kNone, 16},
      {"top_64", Kind::kTopK, Cast::kNone, 64},
      {"top_256", Kind::kTopK, Cast::kNone, 256},
  });
}();

/// Sums over the sampled rows of one head.
struct HeadTolerance {
  std::uint64_t rows = 0;
  std::uint64_t calls = 0;
  double reference = 0;  ///< Σ o², o the output of the row in fp32
  double kv_bytes = 0;   ///< of K and V that a call reads for this head, summed over the calls
  std::array<double, kToleranceSettings.size()> error{};        ///< Σ (o′ − o)²
  std::array<double, kToleranceSettings.size()> saved_bytes{};  ///< of kv_bytes

  void add(const HeadTolerance& other) noexcept {
    rows += other.rows;
    calls += other.calls;
    reference += other.reference;
    kv_bytes += other.kv_bytes;
    for (std::size_t i = 0; i < error.size(); ++i) {
      error[i] += other.error[i];
      saved_bytes[i] += other.saved_bytes[i];
    }
  }
};

/// What cheaper settings would have done to one call, head by head.
struct ToleranceSample {
  std::vector<HeadTolerance> heads;
};

}  // namespace headscope::records
