#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "capture/tensor_view.h"
#include "capture/trace/trace_ops.h"
#include "records/trace_recording.h"

namespace headscope::capture::trace {

/// The recorded inputs of one op, by what they mean. Storages are unknown (0); strides that were not recorded are
/// those of a contiguous tensor.
class OpArguments {
 public:
  OpArguments(const records::TraceRecording& recording, const records::HostOp& host_op, const TraceOp& op,
              records::Device device)
      : recording_(recording), inputs_(recording.inputs_of(host_op)), op_(op), device_(device) {}

  /// std::nullopt for what is no tensor, or has more axes than a view.
  [[nodiscard]] std::optional<TensorView> tensor(Arg arg) const;
  [[nodiscard]] std::optional<TensorView> tensor_at(std::size_t position) const;
  [[nodiscard]] std::optional<std::int64_t> integer(Arg arg) const;
  [[nodiscard]] bool boolean(Arg arg) const;
  [[nodiscard]] double number(Arg arg) const;
  /// The value as text; empty where none was recorded.
  [[nodiscard]] std::string_view text(Arg arg) const;
  /// Some value was recorded: torch before 2.1 records none.
  [[nodiscard]] bool has_values() const;

 private:
  const records::TraceRecording& recording_;
  std::span<const records::TraceInput> inputs_;
  const TraceOp& op_;
  records::Device device_;
};

}  // namespace headscope::capture::trace
