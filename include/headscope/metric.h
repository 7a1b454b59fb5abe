#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "headscope/export.h"
#include "headscope/stats.h"
#include "headscope/value.h"

namespace headscope {

/// One figure of a row: what it means and how it is read. Text, JSON and docs are made from the
/// catalogue, so a figure exists once it has an entry. An id whose figure this version does not make
/// has an entry too: it reads null.
struct Metric {
  std::string_view id;           ///< key in JSON
  std::string_view unit;         ///< of the value: "ns", "bytes", "FLOP/byte"; "" for a count
  std::string_view heading;      ///< column heading of the text table; empty: not in the table
  std::string_view description;  ///< one sentence; the formula is in docs/metrics.md
  /// Of the figure itself, unless the row says otherwise.
  Provenance provenance;
  /// Null where the figure is unknown.
  Value (*read)(const Figures&);
  /// Ids of the figures that a derived one is made from; the rest is empty.
  std::array<std::string_view, 3> inputs = {};
};

/// The catalogue, in the order of reports.
HEADSCOPE_EXPORT std::span<const Metric> metrics() noexcept;

/// The entry of an id; nullptr where there is none.
HEADSCOPE_EXPORT const Metric* find_metric(std::string_view id) noexcept;

/// What the row says of the figure, else the weakest provenance of the figure's inputs
/// (measured, then modelled, then estimated), else the catalogue's.
HEADSCOPE_EXPORT Provenance provenance_of(const Metric& metric, const Figures& figures);

/// Bytes moved: compulsory and materialised.
HEADSCOPE_EXPORT std::optional<Count> bytes_moved(const Figures& figures) noexcept;
/// Bytes moved per second of attention time; 10⁹ bytes/s.
HEADSCOPE_EXPORT std::optional<double> gb_per_s(const Figures& figures) noexcept;
/// Compulsory bytes per second of attention time; 10⁹ bytes/s.
HEADSCOPE_EXPORT std::optional<double> useful_gb_per_s(const Figures& figures) noexcept;
/// FLOPs per second of attention time; 10¹² FLOP/s. Unknown where the time holds other work.
HEADSCOPE_EXPORT std::optional<double> tflop_per_s(const Figures& figures) noexcept;
/// FLOPs per byte moved.
HEADSCOPE_EXPORT std::optional<double> flops_per_byte(const Figures& figures) noexcept;

}  // namespace headscope
