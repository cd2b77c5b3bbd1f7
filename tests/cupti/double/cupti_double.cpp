// SPDX-License-Identifier: Apache-2.0
// A double of libcupti: gives the records, counters and samples that a test has asked for in the real structures.
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugins/cuda/cupti/cupti.h"
#include "tests/cupti/double/controls.h"

namespace {

template <class Record>
std::vector<std::uint8_t> bytesOf(const Record& record) {
  std::vector<std::uint8_t> bytes((sizeof record + 7) / 8 * 8);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

struct State {
  std::set<int> kinds;
  std::map<std::string, CUptiResult> refused;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;
  std::vector<std::uint64_t> external;
  std::uint32_t correlation = 100;
  std::vector<std::vector<std::uint8_t>> ties, records;
  std::size_t dropped = 0;
  int passes = 0;
  bool sampled = false;
  std::string chip = "gh100";
};
State state;

CUptiResult codeOf(const char* function) {
  const auto found = state.refused.find(function);
  return found == state.refused.end() ? CUPTI_SUCCESS : found->second;
}
#define NF_REFUSABLE \
  if (const CUptiResult code = codeOf(__func__); code != CUPTI_SUCCESS) return code

// Ties the next record to the external id that is pushed, as CUPTI does for every call of the driver.
std::uint32_t nextCorrelation() {
  const std::uint32_t correlation = state.correlation++;
  if (!state.external.empty() && state.kinds.contains(CUPTI_ACTIVITY_KIND_DRIVER)) {
    CUpti_ActivityExternalCorrelation tie{};
    tie.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    tie.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    tie.externalId = state.external.back();
    tie.correlationId = correlation;
    state.ties.push_back(bytesOf(tie));
  }
  return correlation;
}

std::size_t sizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return bytesOf(CUpti_ActivityKernel9{}).size();
    case CUPTI_ACTIVITY_KIND_MEMCPY: return bytesOf(CUpti_ActivityMemcpy5{}).size();
    case CUPTI_ACTIVITY_KIND_MEMSET: return bytesOf(CUpti_ActivityMemset4{}).size();
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return bytesOf(CUpti_ActivityGraphTrace{}).size();
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return bytesOf(CUpti_ActivityExternalCorrelation{}).size();
    default: return 0;
  }
}

// A buffer of at most three records each, kernels before the external ids they belong to.
void deliver(const std::vector<std::vector<std::uint8_t>>& records) {
  for (std::size_t first = 0; first < records.size(); first += 3) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    state.request(&buffer, &size, &most);
    for (std::size_t i = first; i < records.size() && i < first + 3; ++i) {
      std::memcpy(buffer + used, records[i].data(), records[i].size());
      used += records[i].size();
    }
    state.complete(nullptr, 0, buffer, size, used);
  }
}

void kernel(const char* name, std::uint32_t device, std::uint64_t begin, std::uint64_t end, std::uint32_t stream) {
  CUpti_ActivityKernel9 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.start = begin;
  k.end = end;
  k.deviceId = device;
  k.streamId = stream;
  k.name = name;
  k.correlationId = nextCorrelation();
  state.records.push_back(bytesOf(k));
}
void copy(std::uint64_t bytes, std::uint64_t begin, std::uint64_t end, std::uint32_t stream) {
  CUpti_ActivityMemcpy5 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  m.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  m.bytes = bytes;
  m.start = begin;
  m.end = end;
  m.streamId = stream;
  m.correlationId = nextCorrelation();
  state.records.push_back(bytesOf(m));
}
void fill(std::uint64_t bytes, std::uint64_t begin, std::uint64_t end, std::uint32_t stream) {
  CUpti_ActivityMemset4 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  m.bytes = bytes;
  m.start = begin;
  m.end = end;
  m.streamId = stream;
  m.correlationId = nextCorrelation();
  state.records.push_back(bytesOf(m));
}
void graph(std::uint64_t begin, std::uint64_t end, std::uint32_t stream) {
  CUpti_ActivityGraphTrace g{};
  g.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  g.start = begin;
  g.end = end;
  g.streamId = stream;
  g.correlationId = nextCorrelation();
  state.records.push_back(bytesOf(g));
}
void refuse(const char* function, CUptiResult code) { state.refused[function] = code; }
void drop(std::size_t records) { state.dropped = records; }
std::size_t enabledKinds() { return state.kinds.size(); }
std::uint64_t readClock() { return state.clock ? state.clock() : 0; }
int passes() { return state.passes; }
void reset() {
  // What was registered stays, as in the library itself.
  State fresh;
  fresh.request = state.request;
  fresh.complete = state.complete;
  fresh.clock = state.clock;
  state = fresh;
}

const char* const kReasons[] = {"smsp__pcsamp_warps_issue_stalled_long_scoreboard", "smsp__pcsamp_warps_issue_stalled_barrier"};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) nf::test::DoubleControls cuptiDoubleControls() {
  return {kernel, copy, fill, graph, refuse, drop, enabledKinds, readClock, passes, reset};
}

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = 130001;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_NOT_SUPPORTED ? "CUPTI_ERROR_NOT_SUPPORTED" : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}

// ---------------------------------------------------------------- activities
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  NF_REFUSABLE;
  state.request = request;
  state.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  state.clock = clock;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  NF_REFUSABLE;
  state.kinds.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  state.kinds.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  NF_REFUSABLE;
  deliver(state.records);
  deliver(state.ties);
  state.records.clear();
  state.ties.clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = *record ? reinterpret_cast<std::uint8_t*>(*record) + sizeOf((*record)->kind) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = state.dropped;
  state.dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  state.external.push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* last) {
  if (state.external.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = state.external.back();
  state.external.pop_back();
  return CUPTI_SUCCESS;
}

// ---------------------------------------------------------------- counters
CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) {
  NF_REFUSABLE;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params* p) {
  NF_REFUSABLE;
  p->counterAvailabilityImageSize = 16;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* p) {
  p->pChipName = state.chip.c_str();
  return CUPTI_SUCCESS;
}
#ifdef NF_CUPTI_RANGES
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* p) {
  p->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object*>(&state);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params*) { return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* p) {
  // A chip without tensor paths for tf32.
  return std::string(p->ppMetricNames[0]).find("tf32") == std::string::npos ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_METRIC_NAME;
}
CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
  p->configImageSize = 32;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* p) {
  std::memset(p->pConfigImage, 1, p->configImageSize);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
  for (std::size_t i = 0; i < p->numMetrics; ++i) {
    const std::string name = p->ppMetricNames[i];
    double value = 0;
    if (name == "gpu__time_duration.sum") value = 12500;
    if (name == "sm__warps_active.avg.pct_of_peak_sustained_active") value = 62.5;
    if (name == "dram__bytes.sum") value = 4096;
    if (name == "lts__t_bytes.sum") value = 16384;
    if (name == "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum") value = 10;
    if (name == "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum") value = 100;
    if (name == "sm__ops_path_tensor_src_fp16_dst_fp32.sum") value = 1000;
    if (name.find("stalled_barrier") != std::string::npos) value = 1;
    if (name.find("stalled_long_scoreboard") != std::string::npos) value = 3;
    if (name.find("stalled_wait") != std::string::npos) value = __builtin_nan("");
    p->pMetricValues[i] = value;
  }
  return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* p) {
  NF_REFUSABLE;
  p->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&state);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params*) { return CUPTI_SUCCESS; }
// One range without others in it, from its first pass on.
CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* p) {
  const bool first = p->passIndex == 0 && p->targetNestingLevel == 0 && p->minNestingLevel == 1 && p->numNestingLevels == 1;
  const bool user = p->range == CUPTI_UserRange && p->replayMode == CUPTI_UserReplay && p->maxRangesPerPass == 1;
  return first && user ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params*) {
  NF_REFUSABLE;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* p) {
  p->isAllPassSubmitted = ++state.passes >= 3;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params*) { return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params*) { return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params*) { return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params* p) {
  p->counterDataSize = 64;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerCounterDataImageInitialize(CUpti_RangeProfiler_CounterDataImage_Initialize_Params*) {
  return CUPTI_SUCCESS;
}
#endif

// ---------------------------------------------------------------- samples
CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams*) {
  NF_REFUSABLE;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams*) { return CUPTI_SUCCESS; }
CUptiResult cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams*) { return CUPTI_SUCCESS; }
CUptiResult cuptiPCSamplingStart(CUpti_PCSamplingStartParams*) { return CUPTI_SUCCESS; }
CUptiResult cuptiPCSamplingStop(CUpti_PCSamplingStopParams*) { return CUPTI_SUCCESS; }
CUptiResult cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams* p) {
  *p->numStallReasons = 2;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams* p) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    p->stallReasonIndex[i] = 7 + i;
    std::strcpy(p->stallReasons[i], kReasons[i]);
  }
  return CUPTI_SUCCESS;
}
// Two reads: line 12 twice, then line 30 and one of no line.
CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams* p) {
  auto* data = static_cast<CUpti_PCSamplingData*>(p->pcSamplingData);
  char* const name = ::strdup("nf_kernel_0");
  const auto place = [&](std::size_t at, std::uint64_t line, std::uint32_t waiting, std::uint32_t barrier) {
    CUpti_PCSamplingPCData& pc = data->pPcData[at];
    pc.pcOffset = line * 16;
    pc.functionName = name;
    pc.stallReasonCount = 2;
    pc.stallReason[0] = {7, waiting};
    pc.stallReason[1] = {8, barrier};
  };
  if (!state.sampled) {
    place(0, 12, 5, 1);
    place(1, 12, 2, 0);
  } else {
    place(0, 30, 0, 20);
    place(1, 0, 1, 0);
  }
  data->totalNumPcs = 2;
  data->remainingNumPcs = state.sampled ? 0 : 2;
  state.sampled = !state.sampled;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetSassToSourceCorrelation(CUpti_GetSassToSourceCorrelationParams* p) {
  p->lineNumber = static_cast<std::uint32_t>(p->pcOffset / 16);
  p->fileName = ::strdup("kernel.cu");
  p->dirName = ::strdup("");
  return CUPTI_SUCCESS;
}

}  // extern "C"
