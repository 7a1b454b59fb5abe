#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/trace/trace_ops.h"
#include "records/trace_recording.h"

namespace headscope::capture::trace {

/// The ops that are open at one moment of a thread, outermost first.
class OpenOps {
 public:
  struct Open {
    const records::HostOp* op = nullptr;
    const TraceOp* known = nullptr;  ///< nullptr: no part of attention
    /// Attention op around it (role fused, composite or native), as a position in the stack; kNone: none.
    std::size_t outer = kNone;
    bool holds_attention = false;  ///< an attention op, or an eager chain, was found inside
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// Closes what ended before `op` began, innermost first: `close(open)` for each.
  template <class Close>
  void close_before(const records::HostOp& op, Close close) {
    while (!stack_.empty() && !stack_.back().op->encloses(op)) {
      close_last(close);
    }
  }
  template <class Close>
  void close_all(Close close) {
    while (!stack_.empty()) {
      close_last(close);
    }
  }
  void open(const records::HostOp& op, const TraceOp* known);

  [[nodiscard]] const Open& operator[](std::size_t position) const { return stack_[position]; }
  [[nodiscard]] bool empty() const noexcept { return stack_.empty(); }
  /// The innermost attention op that is open; kNone: none.
  [[nodiscard]] std::size_t innermost_attention() const noexcept;
  /// The outermost of the attention ops nested around `open`, itself included.
  [[nodiscard]] const records::HostOp& outermost(const Open& open) const noexcept;
  /// Marks the attention ops around whatever is open.
  void mark_attention() noexcept;
  /// Some open op is eager and was taken (a product or softmax), so that what it calls is part of it.
  [[nodiscard]] bool inside_eager() const noexcept;
  /// Sequence number of the innermost open op that has one; −1: none.
  [[nodiscard]] std::int64_t sequence() const noexcept;
  /// The autograd node that is open; nullptr: no backward runs.
  [[nodiscard]] const records::HostOp* backward_node() const noexcept;

 private:
  template <class Close>
  void close_last(Close close) {
    close(stack_.back());  // while it is on the stack, so that its surroundings can be asked
    stack_.pop_back();
  }

  std::vector<Open> stack_;
};

/// Roles of which one call comes about.
bool is_attention(const TraceOp* op) noexcept;
/// Products and softmaxes.
bool is_eager(const TraceOp* op) noexcept;

}  // namespace headscope::capture::trace
