#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "capture/eager_recogniser.h"
#include "capture/trace/op_arguments.h"
#include "capture/trace/trace_calls.h"

namespace headscope::capture::trace {

/// Feeds the products and softmaxes of one thread to the recogniser, and finds the ops of the chains that it returns.
class EagerOps {
 public:
  struct Chain {
    records::AttentionCall call;
    std::vector<records::HostSpan> ops;
    std::int64_t sequence = -1;  ///< of a forward's softmax
    bool causal = false;         ///< the softmax itself leaves out later keys
  };
  /// Where an op stands.
  struct Place {
    std::int64_t sequence = -1;
    bool inside_backward = false;
    /// Of the forward whose softmax a softmax's backward belongs to; nullptr: not known.
    const records::AttentionCall* forward = nullptr;
  };

  /// The chain that `op` completes or ends, if it does.
  std::optional<Chain> feed(const records::HostOp& host_op, const TraceOp& op, const OpArguments& arguments,
                            const Place& place);
  /// The chain that the end of the thread ends.
  std::optional<Chain> flush();

  [[nodiscard]] std::uint64_t unfinished() const noexcept { return recogniser_.unfinished(); }

 private:
  struct Recent {
    records::HostSpan span;
    OpRole role = OpRole::kProduct;
    std::int64_t elements = 0;  ///< of a softmax's scores
    std::int64_t sequence = -1;
    bool causal = false;
  };

  void remember(const Recent& recent) noexcept;
  Chain chain_of(EagerRecogniser::Finished&& finished) const;

  static constexpr std::size_t kRecent = 64;

  EagerRecogniser recogniser_;
  std::array<Recent, kRecent> recent_{};
  std::size_t remembered_ = 0;
};

}  // namespace headscope::capture::trace
