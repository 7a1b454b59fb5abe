#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/op_table.h"
#include "records/trace_recording.h"

namespace headscope::capture::trace {

/// An op as traces name it, which is without overload.
struct TraceOp {
  const OpEntry* entry = nullptr;
  /// Argument names in schema order, of which a trace has none. Overloads and versions differ in their number.
  std::vector<std::vector<std::string_view>> schemas;
  /// A softmax whose kernel leaves out the keys after the query.
  bool causal_softmax = false;

  /// Where `arg` is among `count` inputs.
  [[nodiscard]] std::optional<std::size_t> position(Arg arg, std::size_t count) const;
};

/// nullptr for names that are no part of attention.
const TraceOp* trace_op(std::string_view name);

}  // namespace headscope::capture::trace
