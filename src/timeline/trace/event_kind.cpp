#include "timeline/trace/event_kind.h"

#include <array>
#include <cstddef>
#include <utility>

namespace headscope::timeline::trace {
namespace {

using records::SkipReason;
using records::TracePlatform;

enum class Category : std::uint8_t { kOp, kAnnotation, kPython, kApi, kKernel, kMemcpy, kMemset, kOther };

/// Kineto's names of activities; the capitalised ones are those of torch before 1.12.
constexpr std::pair<std::string_view, Category> kCategories[] = {
    {"cpu_op", Category::kOp},
    {"kernel", Category::kKernel},
    {"cuda_runtime", Category::kApi},
    {"cuda_driver", Category::kApi},
    {"python_function", Category::kPython},
    {"user_annotation", Category::kAnnotation},
    {"gpu_memcpy", Category::kMemcpy},
    {"gpu_memset", Category::kMemset},
    {"hip_runtime", Category::kApi},
    {"xpu_runtime", Category::kApi},
    {"xpu_driver", Category::kApi},
    {"Operator", Category::kOp},
    {"Kernel", Category::kKernel},
    {"Runtime", Category::kApi},
    {"Memcpy", Category::kMemcpy},
    {"Memset", Category::kMemset},
};

Category category_of(std::string_view name) noexcept {
  for (const auto& [text, category] : kCategories) {
    if (name == text) {
      return category;
    }
  }
  return Category::kOther;
}

bool contains(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}

/// cudaLaunchKernelExC, cuLaunchKernelEx, hipModuleLaunchKernel, cudaGraphLaunch, cudaMemcpyAsync, hipMemsetAsync,
/// urEnqueueKernelLaunch, zeCommandListAppendLaunchKernel.
bool puts_work_on_device(std::string_view call) noexcept {
  return contains(call, "Launch") || contains(call, "Memcpy") || contains(call, "Memset") || contains(call, "Enqueue");
}

constexpr std::string_view kModulePrefix = "nn.Module: ";
constexpr std::string_view kStepPrefix = "ProfilerStep#";

/// Walks over the fields of an object as long as they are strings without escapes, or numbers.
class FieldWalk {
 public:
  explicit FieldWalk(std::string_view object) noexcept : text_(object) {}

  /// The next field, a string's without quotes. False where the walk ends.
  bool next(std::string_view& key, std::string_view& value) noexcept {
    skip_space();
    if (at_ >= text_.size() || (text_[at_] != '{' && text_[at_] != ',')) {
      return false;
    }
    ++at_;
    skip_space();
    if (!take_string(key)) {
      return false;
    }
    skip_space();
    if (at_ >= text_.size() || text_[at_] != ':') {
      return false;
    }
    ++at_;
    skip_space();
    return take_string(value) || take_number(value);
  }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool take_string(std::string_view& value) noexcept {
    if (at_ >= text_.size() || text_[at_] != '"') {
      return false;
    }
    const std::size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) {
      return false;
    }
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return !contains(value, "\\");
  }
  bool take_number(std::string_view& value) noexcept {
    const std::size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.' || text_[at_] == '-')) {
      ++at_;
    }
    value = text_.substr(begin, at_ - begin);
    return at_ > begin;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Verdict verdict_on(const EventHead& head) noexcept {
  if (head.phase != "X") {
    const bool is_flow = head.phase == "s" || head.phase == "f" || head.phase == "t";
    return {EventKind::kSkipped, is_flow ? SkipReason::kFlow : SkipReason::kOtherPhase};
  }
  switch (category_of(head.category)) {
    case Category::kOp:
      // torch before 1.11 has its steps here
      return {head.name.starts_with(kStepPrefix) ? EventKind::kStep : EventKind::kHostOp};
    case Category::kAnnotation:
      if (head.name.starts_with(kStepPrefix)) {
        return {EventKind::kStep};
      }
      if (head.name.starts_with(kModulePrefix)) {
        return {EventKind::kModule};
      }
      break;
    case Category::kPython:
      if (head.name.starts_with(kModulePrefix)) {
        return {EventKind::kModule};
      }
      return {EventKind::kSkipped, SkipReason::kPythonFunction};
    case Category::kApi:
      if (puts_work_on_device(head.name)) {
        return {EventKind::kLaunch};
      }
      return {EventKind::kSkipped, SkipReason::kHostCall};
    case Category::kKernel:
      return {EventKind::kKernel};
    case Category::kMemcpy:
      return {EventKind::kMemcpy};
    case Category::kMemset:
      return {EventKind::kMemset};
    case Category::kOther:
      break;
  }
  return {EventKind::kSkipped, SkipReason::kOtherCategory};
}

bool read_head(std::string_view event, EventHead& head) noexcept {
  head = {};
  FieldWalk walk(event);
  std::string_view key;
  std::string_view value;
  while (walk.next(key, value)) {
    if (key == "ph") {
      head.phase = value;
    } else if (key == "cat") {
      head.category = value;
    } else if (key == "name") {
      head.name = value;
    }
    if (!head.phase.empty() && (head.phase != "X" || (!head.category.empty() && !head.name.empty()))) {
      return true;
    }
  }
  return false;
}

bool is_graph_launch(std::string_view name) noexcept { return contains(name, "GraphLaunch"); }

std::string_view module_name(std::string_view name) noexcept {
  return name.starts_with(kModulePrefix) ? name.substr(kModulePrefix.size()) : std::string_view();
}

TracePlatform platform_of_call(std::string_view name) noexcept {
  if (name.starts_with("hip")) {
    return TracePlatform::kRocm;
  }
  if (name.starts_with("cu")) {
    return TracePlatform::kCuda;
  }
  // Level Zero, Unified Runtime, its predecessor, SYCL
  if (name.starts_with("ze") || name.starts_with("ur") || name.starts_with("pi") || name.starts_with("sycl")) {
    return TracePlatform::kXpu;
  }
  return TracePlatform::kUnknown;
}

TracePlatform platform_of_device(std::string_view name) noexcept {
  if (contains(name, "NVIDIA") || contains(name, "Tesla") || contains(name, "GeForce")) {
    return TracePlatform::kCuda;
  }
  if (contains(name, "AMD") || contains(name, "Instinct") || contains(name, "Radeon")) {
    return TracePlatform::kRocm;
  }
  if (contains(name, "Intel")) {
    return TracePlatform::kXpu;
  }
  return TracePlatform::kUnknown;
}

}  // namespace headscope::timeline::trace
