#include "aiupti/cbid.h"

#include <algorithm>
#include <array>
#include <cstddef>

// The numbers come from the SDK's header where it has the name, and from ours where it hasn't (an older release, or a
// name that was respelled): name lookup does it. Ours is read into the outer namespace, the SDK's into the inner one,
// which is asked first. Without an SDK both are the same file, which is read once. In between lie the names whose
// number differs between releases: unless the SDK has them, they have none, and the number is shown.
namespace kineto_spyre::aiupti::cbids {

struct NamedCall {
  uint32_t cbid;
  std::string_view name;
  CbidData data = CbidData::kNothing;
  bool launches = false;
};

constexpr auto sorted(auto calls) {
  std::ranges::sort(calls, {}, &NamedCall::cbid);
  return calls;
}

#include "include/libaiupti/aiupti_runtime_cbid.h"
namespace unproven {
constexpr uint32_t kNoNumber = UINT32_MAX;
constexpr uint32_t AIUPTI_RUNTIME_TRACE_CBID_COLL_ALLREDUCE = kNoNumber;  // 41 was a host-compute call once
constexpr uint32_t AIUPTI_RUNTIME_TRACE_CBID_SUBMIT_TO_HARDWARE = kNoNumber;
constexpr uint32_t AIUPTI_RUNTIME_TRACE_CBID_AIU_ROUNDTRIP = kNoNumber;
constexpr uint32_t AIUPTI_RUNTIME_TRACE_CBID_WAIT_FOR_QUEUE_CAPACITY = kNoNumber;
namespace sdk {
#include <libaiupti/aiupti_runtime_cbid.h>

constexpr auto kCalls = sorted(std::to_array<NamedCall>({
    {AIUPTI_RUNTIME_TRACE_CBID_INVALID, "aiuINVALID"},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CB, "aiuLaunchControlBlocks", CbidData::kControlBlocks, true},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CB_CMPT, "aiuLaunchControlBlocks", CbidData::kControlBlocks, true},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CB_DMI, "aiuLaunchDMIControlBlocks", CbidData::kControlBlocks, true},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CB_DMO, "aiuLaunchDMOControlBlocks", CbidData::kControlBlocks, true},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CMPT_STREAM, "aiuLaunchComputeStream", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_INIT_GRAPH, "aiuInitGraph"},
    {AIUPTI_RUNTIME_TRACE_CBID_MALLOC, "aiuMalloc", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_RESIZE_TENSOR_ALLOCATION, "aiuResizeTensorAllocation", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_SUPER_NODE, "aiuLaunchSuperNode", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_SUPER_NODE_EXECUTE, "aiuSuperNodeExecution"},
    {AIUPTI_RUNTIME_TRACE_CBID_GRAPH_EXECUTE, "aiuGraphExecution"},
    {AIUPTI_RUNTIME_TRACE_CBID_NODE_COMPUTE, "aiuNodeCompute"},
    {AIUPTI_RUNTIME_TRACE_CBID_DATA_CONVERT, "aiuDataConvert"},
    {AIUPTI_RUNTIME_TRACE_CBID_INIT_SCHEDULER, "aiuInitScheduler"},
    {AIUPTI_RUNTIME_TRACE_CBID_CREATE_VIRTUAL_ADDRESSES, "aiuCreateVirtualAddresses"},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_SCHEDULE_COMPUTE, "aiuLaunchScheduleCompute", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_SCHEDULE_WAIT, "aiuScheduleWait"},
    {AIUPTI_RUNTIME_TRACE_CBID_PREPARE_DMAS, "aiuPrepareDMAs"},
    {AIUPTI_RUNTIME_TRACE_CBID_PREPARE_SYNC_RDMA, "aiuPrepareAndSyncRDMA"},
    {AIUPTI_RUNTIME_TRACE_CBID_CLEAR_CACHE, "aiuClearCache"},
    {AIUPTI_RUNTIME_TRACE_CBID_PRELOAD_CACHE, "aiuPreloadCache"},
    {AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_COMPUTE_STREAM, "aiuLaunchComputeStream", CbidData::kNothing, true},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_BARRIER_1, "aiuRDMABarrier1"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_POST_KEYS, "aiuPostRDMAKeys"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_BARRIER_2, "aiuRDMABarrier2"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_FETCH_KEYS, "aiuFetchRDMAKeys"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_UPDATE_CBS, "aiuUpdateRDMACBs"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_BARRIER_3, "aiuRDMABarrier3"},
    {AIUPTI_RUNTIME_TRACE_CBID_RDMA_DEADLOCK_CHECK, "aiuCheckRDMADeadlock"},
    {AIUPTI_RUNTIME_TRACE_CBID_FILE_TRANSFER_DTOF, "aiuFileTransferDtoF", CbidData::kBytes, true},
    {AIUPTI_RUNTIME_TRACE_CBID_FILE_TRANSFER_MTOF, "aiuFileTransferMtoF", CbidData::kBytes},
    {AIUPTI_RUNTIME_TRACE_CBID_FILE_TRANSFER_FTOD, "aiuFileTransferFtoD", CbidData::kBytes, true},
    {AIUPTI_RUNTIME_TRACE_CBID_FILE_TRANSFER_FTOM, "aiuFileTransferFtoM", CbidData::kBytes},
    {AIUPTI_RUNTIME_TRACE_CBID_DATA_TRANSFER_DTOH, "aiuDataTransferDtoH", CbidData::kBytes, true},
    {AIUPTI_RUNTIME_TRACE_CBID_DATA_TRANSFER_HTOD, "aiuDataTransferHtoD", CbidData::kBytes, true},
    {AIUPTI_RUNTIME_TRACE_CBID_CLOCK_CALIBRATION, "aiuClockCalibration"},
    {AIUPTI_RUNTIME_TRACE_CBID_COMPILE_GRAPH, "aiuCompileGraph"},
    {AIUPTI_RUNTIME_TRACE_CBID_PARSE_RESPONSE, "aiuParseResponse"},
    {AIUPTI_RUNTIME_TRACE_CBID_ISSUE_CALLBACK, "aiuIssueCallback"},
    {AIUPTI_RUNTIME_TRACE_CBID_VERIFY_ASYC_MSGS, "aiuVerifyAsyncMsgs"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_ALLREDUCE, "aiuCommsCollAllreduce"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_ALLGATHER, "aiuCommsCollAllgather"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_GATHER, "aiuCommsCollGather"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_GATHERV, "aiuCommsCollGatherv"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_REDUCE, "aiuCommsCollReduce"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_BROADCAST, "aiuCommsCollBroadcast"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_BARRIER, "aiuCommsCollBarrier"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_START, "aiuCommsWorkSchedStart"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_WAIT, "aiuCommsWorkSchedWait"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_ALLREDUCE_SETUP, "aiuCommsCollAllreduceSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_ALLGATHER_SETUP, "aiuCommsCollAllgatherSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_GATHER_SETUP, "aiuCommsCollGatherSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_GATHERV_SETUP, "aiuCommsCollGathervSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_REDUCE_SETUP, "aiuCommsCollReduceSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_COLL_BROADCAST_SETUP, "aiuCommsCollBroadcastSetup"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_PHASE_RECORDING, "aiuCommsWorkSchedPhaseRecord"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_PHASE_WIREUP, "aiuCommsWorkSchedPhaseWireup"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_MSG_INFO_MGR, "aiuCommsWorkSchedMsgInfoMgr"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_HDMA_RT_MGR, "aiuCommsWorkSchedHdmaRtMgr"},
    {AIUPTI_RUNTIME_TRACE_CBID_WORK_SCHED_PHASE_LAUNCH, "aiuCommsWorkSchedPhaseLaunch"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_SYNCHRONIZE, "aiuCommsOpSync"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_D2H_TRANSFER, "aiuCommsOpD2HXfer"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_H2D_TRANSFER, "aiuCommsOpH2DXfer"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_SEND_DATA, "aiuCommsOpSendData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_MULTICAST_SEND_DATA, "aiuCommsOpMcastSendData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_RECV_DATA, "aiuCommsOpRecvData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_BROADCAST_DATA, "aiuCommsOpBcastData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_GATHER_DATA, "aiuCommsOpGatherData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_ALLGATHER_DATA, "aiuCommsOpAllgatherData"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_BINARY_COMPUTE, "aiuCommsOpBinaryComp"},
    {AIUPTI_RUNTIME_TRACE_CBID_OP_COPY, "aiuCommsOpCopy"},
    {AIUPTI_RUNTIME_TRACE_CBID_BUNDLE_GENERATE, "aiuCommsBundleGen"},
    {AIUPTI_RUNTIME_TRACE_CBID_ARTIFACT_LOAD_TO_DEVICE, "aiuCommsArtifactLoad"},
    {AIUPTI_RUNTIME_TRACE_CBID_ARTIFACT_LAUNCH_COMPUTE_OP, "aiuCommsArtifactLaunchOp"},
    {AIUPTI_RUNTIME_TRACE_CBID_COST_ESTIMATE, "aiuCommsCostEst"},
    {AIUPTI_RUNTIME_TRACE_CBID_BENCH_PAIRWISE, "aiuCommsBenchPairwise"},
    {AIUPTI_RUNTIME_TRACE_CBID_BENCH_ALLREDUCE, "aiuCommsBenchAllreduce"},
    {AIUPTI_RUNTIME_TRACE_CBID_SUBMIT_TO_HARDWARE, "aiuSubmitToHardware"},
    {AIUPTI_RUNTIME_TRACE_CBID_AIU_ROUNDTRIP, "aiuRoundtrip"},
    {AIUPTI_RUNTIME_TRACE_CBID_WAIT_FOR_QUEUE_CAPACITY, "aiuWaitForQueueCapacity"},
}));
}  // namespace sdk
}  // namespace unproven
}  // namespace kineto_spyre::aiupti::cbids

namespace kineto_spyre::aiupti {
namespace {

const cbids::NamedCall* find(uint32_t cbid) {
  if (cbid == cbids::unproven::kNoNumber) return nullptr;
  const auto& calls = cbids::unproven::sdk::kCalls;
  const auto found = std::lower_bound(calls.begin(), calls.end(), cbid,
                                      [](const cbids::NamedCall& call, uint32_t id) { return call.cbid < id; });
  return found != calls.end() && found->cbid == cbid ? &*found : nullptr;
}

}  // namespace

std::string_view known_cbid_name(uint32_t cbid) {
  const cbids::NamedCall* call = find(cbid);
  return call != nullptr ? call->name : std::string_view();
}

std::string cbid_name(uint32_t cbid) {
  const cbids::NamedCall* call = find(cbid);
  return call != nullptr ? std::string(call->name) : "Unknown CBID " + std::to_string(cbid);
}

CbidData cbid_data(uint32_t cbid) {
  const cbids::NamedCall* call = find(cbid);
  return call != nullptr ? call->data : CbidData::kNothing;
}

bool launches_device_work(uint32_t cbid) {
  const cbids::NamedCall* call = find(cbid);
  return call != nullptr && call->launches;
}

}  // namespace kineto_spyre::aiupti
