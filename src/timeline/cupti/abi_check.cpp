// Compares abi.h with the headers of a CUPTI, where the build found some. cupti.h is left out: from 13.1 it compiles
// beside its own release of CUDA only.

#ifdef HEADSCOPE_CUPTI_HEADERS

#include "timeline/cupti/abi.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

#include <cstddef>

namespace headscope::timeline::cupti::abi {
namespace {

#if CUPTI_API_VERSION < 130000
using Kernel = CUpti_ActivityKernel9;
#elif CUPTI_API_VERSION < 130100
using Kernel = CUpti_ActivityKernel10;
#elif CUPTI_API_VERSION < 130300
using Kernel = CUpti_ActivityKernel11;
#elif CUPTI_API_VERSION < 130500
using Kernel = CUpti_ActivityKernel12;
#else
using Kernel = CUpti_ActivityKernel13;
#endif

#define HEADSCOPE_SAME(Ours, field, Theirs, member) static_assert(offsetof(Ours, field) == offsetof(Theirs, member))

HEADSCOPE_SAME(KernelRecord, start, Kernel, start);
HEADSCOPE_SAME(KernelRecord, end, Kernel, end);
HEADSCOPE_SAME(KernelRecord, completed, Kernel, completed);
HEADSCOPE_SAME(KernelRecord, device, Kernel, deviceId);
HEADSCOPE_SAME(KernelRecord, context, Kernel, contextId);
HEADSCOPE_SAME(KernelRecord, stream, Kernel, streamId);
HEADSCOPE_SAME(KernelRecord, grid, Kernel, gridX);
HEADSCOPE_SAME(KernelRecord, block, Kernel, blockX);
HEADSCOPE_SAME(KernelRecord, correlation, Kernel, correlationId);
HEADSCOPE_SAME(KernelRecord, name, Kernel, name);
HEADSCOPE_SAME(KernelRecord, graph_node, Kernel, graphNodeId);
HEADSCOPE_SAME(KernelRecord, graph, Kernel, graphId);
static_assert(sizeof(KernelRecord) <= sizeof(Kernel));

HEADSCOPE_SAME(TransferRecord, what, CUpti_ActivityMemcpy5, copyKind);
HEADSCOPE_SAME(TransferRecord, bytes, CUpti_ActivityMemcpy5, bytes);
HEADSCOPE_SAME(TransferRecord, start, CUpti_ActivityMemcpy5, start);
HEADSCOPE_SAME(TransferRecord, end, CUpti_ActivityMemcpy5, end);
HEADSCOPE_SAME(TransferRecord, device, CUpti_ActivityMemcpy5, deviceId);
HEADSCOPE_SAME(TransferRecord, context, CUpti_ActivityMemcpy5, contextId);
HEADSCOPE_SAME(TransferRecord, stream, CUpti_ActivityMemcpy5, streamId);
HEADSCOPE_SAME(TransferRecord, correlation, CUpti_ActivityMemcpy5, correlationId);
HEADSCOPE_SAME(TransferRecord, graph_node, CUpti_ActivityMemcpy5, graphNodeId);
HEADSCOPE_SAME(TransferRecord, graph, CUpti_ActivityMemcpy5, graphId);
static_assert(sizeof(TransferRecord) <= sizeof(CUpti_ActivityMemcpy5));

HEADSCOPE_SAME(TransferRecord, what, CUpti_ActivityMemset4, value);
HEADSCOPE_SAME(TransferRecord, bytes, CUpti_ActivityMemset4, bytes);
HEADSCOPE_SAME(TransferRecord, start, CUpti_ActivityMemset4, start);
HEADSCOPE_SAME(TransferRecord, end, CUpti_ActivityMemset4, end);
HEADSCOPE_SAME(TransferRecord, device, CUpti_ActivityMemset4, deviceId);
HEADSCOPE_SAME(TransferRecord, stream, CUpti_ActivityMemset4, streamId);
HEADSCOPE_SAME(TransferRecord, correlation, CUpti_ActivityMemset4, correlationId);
HEADSCOPE_SAME(TransferRecord, graph_node, CUpti_ActivityMemset4, graphNodeId);
HEADSCOPE_SAME(TransferRecord, graph, CUpti_ActivityMemset4, graphId);
static_assert(sizeof(TransferRecord) <= sizeof(CUpti_ActivityMemset4));

HEADSCOPE_SAME(ExternalRecord, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
HEADSCOPE_SAME(ExternalRecord, external_id, CUpti_ActivityExternalCorrelation, externalId);
HEADSCOPE_SAME(ExternalRecord, correlation, CUpti_ActivityExternalCorrelation, correlationId);

HEADSCOPE_SAME(ApiRecord, function, CUpti_ActivityAPI, cbid);
HEADSCOPE_SAME(ApiRecord, start, CUpti_ActivityAPI, start);
HEADSCOPE_SAME(ApiRecord, end, CUpti_ActivityAPI, end);
HEADSCOPE_SAME(ApiRecord, thread, CUpti_ActivityAPI, threadId);
HEADSCOPE_SAME(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);

HEADSCOPE_SAME(GraphData, node, CUpti_GraphData, node);
HEADSCOPE_SAME(GraphData, original_node, CUpti_GraphData, originalNode);
HEADSCOPE_SAME(GraphData, executable, CUpti_GraphData, graphExec);
HEADSCOPE_SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);

#if CUPTI_API_VERSION >= 130000
HEADSCOPE_SAME(SubscriberParams, size, CUpti_SubscriberParams, structSize);
HEADSCOPE_SAME(SubscriberParams, name, CUpti_SubscriberParams, subscriberName);
HEADSCOPE_SAME(SubscriberParams, holder, CUpti_SubscriberParams, oldSubscriberName);
HEADSCOPE_SAME(SubscriberParams, holder_size, CUpti_SubscriberParams, oldSubscriberSize);
#endif

#undef HEADSCOPE_SAME

static_assert(kMaxLimitReached == CUPTI_ERROR_MAX_LIMIT_REACHED && kInvalidKind == CUPTI_ERROR_INVALID_KIND);
static_assert(kNotCompatible == CUPTI_ERROR_NOT_COMPATIBLE);
static_assert(kInsufficientPrivileges == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(kMemcpy == CUPTI_ACTIVITY_KIND_MEMCPY && kMemset == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(kSerialKernel == CUPTI_ACTIVITY_KIND_KERNEL &&
              kConcurrentKernel == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(kDriver == CUPTI_ACTIVITY_KIND_DRIVER && kRuntime == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(kExternalCorrelation == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
static_assert(kCustom2 == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
static_assert(kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(kSystemThreadIds == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
static_assert(kResourceDomain == CUPTI_CB_DOMAIN_RESOURCE);
static_assert(kGraphNodeCreated == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
static_assert(kGraphNodeCloned == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
static_assert(kRuntimeGraphLaunch[0] == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000);
static_assert(kRuntimeGraphLaunch[1] == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000);
static_assert(kDriverGraphLaunch[0] == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
static_assert(kDriverGraphLaunch[1] == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz);

}  // namespace
}  // namespace headscope::timeline::cupti::abi

#endif
