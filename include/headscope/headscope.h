#pragma once

/// Everything but testing.h, which needs GoogleTest.

#include "headscope/annotate.h"
#include "headscope/budget.h"
#include "headscope/capabilities.h"
#include "headscope/error.h"
#include "headscope/inference.h"
#include "headscope/kv_cache.h"
#include "headscope/metric.h"
#include "headscope/options.h"
#include "headscope/patterns.h"
#include "headscope/profiler.h"
#include "headscope/report.h"
#include "headscope/stats.h"
#include "headscope/tolerance.h"
#include "headscope/torch_profiler.h"
#include "headscope/trace.h"
#include "headscope/types.h"
#include "headscope/value.h"
#include "headscope/version.h"
