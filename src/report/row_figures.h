#pragma once

#include "headscope/stats.h"

namespace headscope::report {

/// The figures of a head or of a single call, from which the catalogue reads derived metrics.
template <class Row>
Figures figures_of(const Row& row) {
  Figures figures;
  figures.calls = 1;
  figures.flops = row.flops;
  figures.bytes = row.bytes;
  figures.bytes_materialized = row.bytes_materialized;
  if (row.time) {
    figures.time.emplace();
    figures.time->total = *row.time;
    figures.time->first = *row.time;
  }
  return figures;
}

}  // namespace headscope::report
