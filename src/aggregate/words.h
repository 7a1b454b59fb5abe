#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "records/attention_call.h"

/// The words of Stats for what records hold as enums.
namespace headscope::aggregate {

std::string_view mask_word(records::MaskState mask) noexcept;
/// std::nullopt when not causal.
std::optional<std::string> alignment_word(records::Causal causal);
/// std::nullopt when no path was left.
std::optional<std::string> fallback_word(records::FallbackReason reason);
/// "attention", "glue", "other".
std::string_view part_word(records::KernelPart part) noexcept;
std::string_view dtype_word(records::DType dtype) noexcept;
/// "cpu", "cuda:0".
std::string device_word(records::Device device);

}  // namespace headscope::aggregate
