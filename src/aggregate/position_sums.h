#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "aggregate/quantile_sketch.h"
#include "aggregate/sums.h"
#include "headscope/stats.h"
#include "model/positions.h"
#include "records/attention_call.h"

namespace headscope::aggregate {

/// The times of a row's forward calls by sequence position (model/positions.h). A call with one position is a sample
/// of its bin. Of the others the time is spread over the blocks of their queries, that of all calls of one shape at
/// once, so that rounding does not depend on the order of calls.
class PositionSums {
 public:
  /// Outliers took more than this many times their bin's median.
  static constexpr double kOutlierFactor = 3.0;

  /// No effect of calls that are no forwards, were not timed, or have unknown lengths.
  void add(const records::CostedCall& costed, std::int64_t step);
  void merge(const PositionSums& other);

  [[nodiscard]] bool empty() const noexcept { return by_keys_.empty() && groups_.empty() && blocks_.empty(); }
  /// At most one series of each kind; they name no layer and no op.
  [[nodiscard]] std::vector<PositionSeries> series() const;

 private:
  struct Slowest {
    std::int64_t time_ns = -1;
    std::int64_t keys = 0;
    std::uint64_t call_id = 0;
    std::int64_t step = 0;
  };
  /// Calls whose key length falls into one bin.
  struct KeyBin {
    std::uint64_t tokens = 0;
    Spread keys;
    Spread batch;
    Spread times;
    Count time_ns = 0;
    QuantileSketch sketch;
    Slowest slowest;

    void merge(const KeyBin& other);
    [[nodiscard]] PositionBin describe(std::size_t number) const;
  };
  struct BlockBin {
    std::uint64_t calls = 0;
    Count tokens = 0;
    Count time_ns = 0;
  };
  /// What decides the blocks of a call whose sequences are alike.
  struct Shape {
    records::Geometry geometry;
    records::Causal causal = records::Causal::kNone;
    records::Window window;
    records::MaskState mask = records::MaskState::kNone;
    std::uint64_t mask_pairs = 0;
    std::int64_t mask_keys = 0;
    bool mask_is_triangle = false;

    friend bool operator==(const Shape&, const Shape&) = default;
  };
  /// Calls of one shape that are not spread yet.
  struct Group {
    Shape shape;
    std::shared_ptr<const model::QueryBlocks> blocks;
    std::uint64_t calls = 0;
    Count time_ns = 0;
  };
  /// Calls of further shapes are spread one by one.
  static constexpr std::size_t kMaxGroups = 64;

  static Shape shape_of(const records::AttentionCall& call) noexcept;
  [[nodiscard]] PositionSeries by_key_length() const;
  [[nodiscard]] PositionSeries by_query_block() const;
  void add_sample(const records::CostedCall& costed, std::int64_t step);
  void add_blocks(const records::AttentionCall& call);
  /// nullptr when there is no place for another group.
  Group* group_of(const Shape& shape);
  void spread(const model::QueryBlocks& blocks, std::uint64_t calls, Count time_ns);

  std::map<std::size_t, KeyBin> by_keys_;
  std::map<std::size_t, BlockBin> blocks_;
  std::vector<Group> groups_;
  bool exact_ = true;
};

}  // namespace headscope::aggregate
