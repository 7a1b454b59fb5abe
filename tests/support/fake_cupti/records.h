#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "support/fake_cupti/control.h"
#include "timeline/cupti/abi.h"

/// Bytes of records, as the releases of CUPTI lay them out.
namespace headscope::fake_cupti {

namespace abi = timeline::cupti::abi;
using Bytes = std::vector<std::uint8_t>;

/// Lengths that were measured with the iterators of the releases (12.4 to 13.1), else from headers.
inline constexpr std::array<FakeLayout, 9> kLayouts = {{
    {22, 208, 88, 88},
    {24, 208, 88, 88},
    {26, 208, 96, 88},
    {28, 208, 96, 88},
    {130001, 216, 96, 88},
    {130101, 224, 96, 88},
    {130202, 224, 96, 88},
    {130301, 232, 96, 88},
    {130500, 248, 112, 104},
}};

const FakeLayout& layout_of(std::uint32_t version);
/// 0: not known, which ends a buffer.
std::size_t length_of(std::uint32_t kind, const FakeLayout& layout);

Bytes kernel_record(const FakeLayout& layout, const FakeLaunch& launch, std::uint32_t correlation, std::uint32_t graph,
                    std::uint64_t node);
Bytes transfer_record(const FakeLayout& layout, const abi::TransferRecord& record);
Bytes external_record(std::uint32_t external_kind, std::uint64_t id, std::uint32_t correlation);
Bytes api_record(const abi::ApiRecord& record);

}  // namespace headscope::fake_cupti
