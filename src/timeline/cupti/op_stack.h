#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headscope::timeline::cupti {

/// A thread's open ops, as CUPTI's stack of external ids has them. Belongs to one session, known by its token.
class OpStack {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  /// True when the stack was of another session: what CUPTI still has of it must be popped.
  bool enter(std::uint64_t session) noexcept {
    if (session_ == session) {
      return false;
    }
    session_ = session;
    depth_ = 0;
    return true;
  }

  [[nodiscard]] bool full() const noexcept { return depth_ == kMaxDepth; }
  void push(std::uint64_t op) noexcept { ops_[depth_++] = op; }

  /// How many ids to pop to end `op`: it and those inside it; 0 when it is not open here in this session.
  std::size_t close(std::uint64_t session, std::uint64_t op) noexcept {
    if (session_ != session) {
      return 0;
    }
    for (std::size_t at = depth_; at > 0; --at) {
      if (ops_[at - 1] == op) {
        const std::size_t pops = depth_ - (at - 1);
        depth_ = at - 1;
        return pops;
      }
    }
    return 0;
  }

  /// The innermost op; 0: none.
  [[nodiscard]] std::uint64_t current(std::uint64_t session) const noexcept {
    return session_ == session && depth_ != 0 ? ops_[depth_ - 1] : 0;
  }

 private:
  std::uint64_t session_ = 0;
  std::size_t depth_ = 0;
  std::array<std::uint64_t, kMaxDepth> ops_{};
};

}  // namespace headscope::timeline::cupti
