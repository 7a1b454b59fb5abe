#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "records/device_activity.h"
#include "timeline/cupti/abi.h"
#include "timeline/cupti/name_table.h"

namespace headscope::timeline::cupti {

/// "Calls with this correlation id ran inside this op."
struct OpLink {
  std::uint32_t correlation = 0;
  std::uint64_t op = 0;
};

/// Which records of a buffer belong to the session.
struct Scope {
  std::uint64_t begin_ticks = 0;  ///< those that end before are of an earlier session
  std::uint64_t first_op = 0;     ///< external ids in [first_op, end_op) are its ops
  std::uint64_t end_op = 0;
};

/// What a buffer held. Times are ticks of CUPTI's clock, in the fields for nanoseconds; `Launch::op` is unset.
struct Decoded {
  std::vector<records::DeviceSpan> spans;
  std::vector<records::Launch> launches;
  std::vector<OpLink> links;
  std::uint64_t stale = 0;   ///< records of an earlier session
  std::uint64_t broken = 0;  ///< places where the rest of the buffer could not be read
  std::uint64_t records = 0;
};

using NextRecord = abi::Result (*)(std::uint8_t* buffer, std::size_t valid_bytes, void** record);

/// Reads the records of a buffer into `out`. Kinds and external ids that are not ours are passed over.
void decode_buffer(const std::uint8_t* buffer, std::size_t valid_bytes, NextRecord next_record, const Scope& scope,
                   NameTable& names, Decoded& out);

/// How many kernels, copies, fills and API calls a buffer holds.
std::uint64_t count_records(const std::uint8_t* buffer, std::size_t valid_bytes, NextRecord next_record);

}  // namespace headscope::timeline::cupti
