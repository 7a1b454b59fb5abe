#include "capture/trace/op_arguments.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace headscope::capture::trace {
namespace {

struct ElementType {
  std::string_view name;
  records::DType dtype = records::DType::kOther;
  std::uint32_t size = 0;
};

/// C++ names of scalar types, as torch records them.
constexpr ElementType kElementTypes[] = {
    {"float", records::DType::kFloat32, 4},
    {"double", records::DType::kFloat64, 8},
    {"c10::Half", records::DType::kFloat16, 2},
    {"c10::BFloat16", records::DType::kBFloat16, 2},
    {"c10::Float8_e4m3fn", records::DType::kFloat8, 1},
    {"c10::Float8_e5m2", records::DType::kFloat8, 1},
    {"c10::Float8_e4m3fnuz", records::DType::kFloat8, 1},
    {"c10::Float8_e5m2fnuz", records::DType::kFloat8, 1},
    {"signed char", records::DType::kInt8, 1},
    {"unsigned char", records::DType::kInt8, 1},
    {"bool", records::DType::kOther, 1},
    {"short", records::DType::kOther, 2},
    {"int", records::DType::kOther, 4},
    {"long int", records::DType::kOther, 8},
    {"long", records::DType::kOther, 8},
};

/// Sizes of which products fit 64 bits, whatever a file says.
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

bool is_plausible(std::span<const std::int64_t> sizes) noexcept {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > kMostElements / std::max<std::int64_t>(elements, 1)) {
      return false;
    }
    elements *= std::max<std::int64_t>(size, 1);
  }
  return true;
}

}  // namespace

std::optional<TensorView> OpArguments::tensor(Arg arg) const {
  const std::optional<std::size_t> position = op_.position(arg, inputs_.size());
  return position ? tensor_at(*position) : std::nullopt;
}

std::optional<TensorView> OpArguments::tensor_at(std::size_t position) const {
  if (position >= inputs_.size()) {
    return std::nullopt;
  }
  const records::TraceInput& input = inputs_[position];
  const std::span<const std::int64_t> sizes = recording_.sizes_of(input);
  if (sizes.empty() || sizes.size() > TensorView::kMaxDims || !is_plausible(sizes)) {
    return std::nullopt;
  }
  const std::span<const std::int64_t> strides = recording_.strides_of(input);
  TensorView view;
  view.dims = static_cast<int>(sizes.size());
  std::int64_t dense = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    view.sizes[axis] = sizes[axis];
    view.strides[axis] = strides.empty() ? dense : strides[axis];
    dense *= std::max<std::int64_t>(sizes[axis], 1);
  }
  const std::string_view type = recording_.names[input.type];
  for (const ElementType& known : kElementTypes) {
    if (known.name == type) {
      view.dtype = known.dtype;
      view.element_size = known.size;
    }
  }
  view.device = device_;
  return view;
}

std::string_view OpArguments::text(Arg arg) const {
  const std::optional<std::size_t> position = op_.position(arg, inputs_.size());
  return position ? recording_.names[inputs_[*position].concrete] : std::string_view();
}

std::optional<std::int64_t> OpArguments::integer(Arg arg) const {
  const std::string_view value = text(arg);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    return std::nullopt;
  }
  return number;
}

bool OpArguments::boolean(Arg arg) const {
  const std::string_view value = text(arg);
  return value == "True" || value == "true" || integer(arg).value_or(0) != 0;
}

double OpArguments::number(Arg arg) const {
  const std::string_view value = text(arg);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() ? number : 0;
}

bool OpArguments::has_values() const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [](const records::TraceInput& input) { return input.concrete != 0; });
}

}  // namespace headscope::capture::trace
