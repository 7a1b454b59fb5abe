#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace headscope::capture::torch {

/// While it lives, what this thread runs is seen by no autograd, mode, autocast, profiler or memory report: the
/// program's results, records and figures stay as they would be.
class UnseenScope {
 public:
  UnseenScope();
  UnseenScope(const UnseenScope&) = delete;
  UnseenScope& operator=(const UnseenScope&) = delete;
  ~UnseenScope();

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

/// Whether reading a tensor of `device` would break a CUDA graph's capture, or may.
bool may_be_captured(c10::Device device);

}  // namespace headscope::capture::torch
