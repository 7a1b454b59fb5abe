#pragma once

#include "device_clock.h"
#include "session/collector.h"

/// What there is once a process. Never destroyed: hooks outlive every profiler.
namespace headscope {

/// The collector, with the hooks that feed it. Throws Error where the hooks cannot be installed.
session::Collector& the_collector();

/// nullptr where no profiler was made so far.
session::Collector* collector_if_made() noexcept;

/// The device clock, over CUPTI. The first call makes it.
DeviceClock& the_device_clock();
/// nullptr where no profiler asked for it so far.
DeviceClock* device_clock_if_made() noexcept;

}  // namespace headscope
