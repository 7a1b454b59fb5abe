#pragma once

#include <string>
#include <string_view>

#include "timeline/cupti/library.h"
#include "timeline/device_timeline.h"

/// Whether CUPTI is free. It serves one subscriber; its activity records need none, but have one state for the
/// whole process, so a subscriber is the sign by which tools know of each other.
namespace headscope::timeline::cupti {

enum class Claim : std::uint8_t {
  kRefuse,
  kKeep,     ///< ours; graph callbacks need it
  kRelease,  ///< ours, to be given back at once: a torch.profiler that cannot subscribe stays without devices for ever
  kWithout,  ///< an idle torch.profiler has it
};

struct Decision {
  Claim claim = Claim::kRefuse;
  Reason reason = Reason::kNone;
  std::string text;     ///< why it was refused
  std::string warning;  ///< what is lost although it was not
};

/// Before anything is asked of CUPTI.
Decision decide_before_probe(const Situation& situation);

/// After cuptiSubscribe gave `result`; `holder` is the name of who has the subscriber, where CUPTI knows it.
Decision decide_after_probe(const Situation& situation, abi::Result result, std::string_view holder);

/// Name of who has the subscriber; empty below CUPTI 13.0, or where it has no name.
std::string holder_name(const Api& api);

}  // namespace headscope::timeline::cupti
