// SPDX-License-Identifier: Apache-2.0
// The order of calls is that of NVIDIA's CUPTI documentation, "Range Profiling API" (12.6 and later).
#include "plugins/cuda/cupti/counters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

namespace nf::cuda {
namespace {

constexpr const char* kTime = "gpu__time_duration.sum";  // ns
constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr const char* kDram = "dram__bytes.sum";
constexpr const char* kL2 = "lts__t_bytes.sum";

struct Arithmetic {
  const char* metric;
  double flops;  // of one that is counted
};
constexpr Arithmetic kArithmetic[] = {
    {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1}, {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2}, {"smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1}, {"smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2},
    {"smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 1}, {"smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 1},
    {"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 2}, {"sm__ops_path_tensor_src_fp16_dst_fp32.sum", 1},
    {"sm__ops_path_tensor_src_bf16_dst_fp32.sum", 1},           {"sm__ops_path_tensor_src_tf32_dst_fp32.sum", 1}};

constexpr std::string_view kStallPrefix = "smsp__average_warps_issue_stalled_", kStallSuffix = "_per_issue_active.ratio";
constexpr const char* kStalls[] = {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_branch_resolving_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_misc_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_tex_throttle_per_issue_active.ratio",
                                   "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"};

}  // namespace

const std::vector<const char*>& metricNames() {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> all{kTime, kOccupancy, kDram, kL2};
    for (const Arithmetic& a : kArithmetic) all.push_back(a.metric);
    all.insert(all.end(), std::begin(kStalls), std::end(kStalls));
    return all;
  }();
  return names;
}

KernelCounters countersFrom(const std::vector<const char*>& names, const std::vector<double>& values) {
  KernelCounters c;
  double stalled = 0;
  for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) {
    const std::string_view name = names[i];
    const double value = std::isfinite(values[i]) ? values[i] : 0;  // of nothing that was executed
    if (name == kTime) c.us = value * 1e-3;
    if (name == kOccupancy) c.occupancy = value * 1e-2;
    if (name == kDram) c.dramBytes = value;
    if (name == kL2) c.l2Bytes = value;
    for (const Arithmetic& a : kArithmetic)
      if (name == a.metric) c.flops += value * a.flops;
    if (!name.starts_with(kStallPrefix) || value <= 0) continue;
    c.stalls.push_back(
        {std::string(name.substr(kStallPrefix.size(), name.size() - kStallPrefix.size() - kStallSuffix.size())), value});
    stalled += value;
  }
  for (KernelCounters::Stall& s : c.stalls) s.share /= stalled;
  std::stable_sort(c.stalls.begin(), c.stalls.end(),
                   [](const KernelCounters::Stall& a, const KernelCounters::Stall& b) { return a.share > b.share; });
  return c;
}

#ifdef NF_CUPTI_RANGES
namespace {

#define NF_CUPTI_CALL(what, call) \
  if (const CUptiResult nfCode = (call); nfCode != CUPTI_SUCCESS) return cupti.failure(what, nfCode)

constexpr const char* kNoCounters = "CUPTI reads no counters on this device";
constexpr int kMostPasses = 256;

template <class Params>
Params sized(std::size_t size) {
  Params params;
  std::memset(&params, 0, sizeof params);
  params.structSize = size;
  return params;
}

// Which counters are to be read, as CUPTI plans it for this chip.
class Plan {
 public:
  explicit Plan(const Cupti& cupti) : m_cupti(cupti) {}
  ~Plan() {
    if (!m_host) return;
    auto end = sized<CUpti_Profiler_Host_Deinitialize_Params>(CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    end.pHostObject = m_host;
    m_cupti.hostDeinitialize(&end);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Result<Unit> make(CUcontext context, int device) {
    const Cupti& cupti = m_cupti;
    auto chip = sized<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
    chip.deviceIndex = static_cast<std::size_t>(device);
    NF_CUPTI_CALL(kNoCounters, cupti.chipName(&chip));
    auto available = sized<CUpti_Profiler_GetCounterAvailability_Params>(CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
    available.ctx = context;
    NF_CUPTI_CALL(kNoCounters, cupti.counterAvailability(&available));
    m_available.resize(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = m_available.data();
    NF_CUPTI_CALL(kNoCounters, cupti.counterAvailability(&available));
    auto host = sized<CUpti_Profiler_Host_Initialize_Params>(CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = chip.pChipName;
    host.pCounterAvailabilityImage = m_available.data();
    NF_CUPTI_CALL(kNoCounters, cupti.hostInitialize(&host));
    m_host = host.pHostObject;
    for (const char* metric : metricNames()) {
      auto add = sized<CUpti_Profiler_Host_ConfigAddMetrics_Params>(CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
      add.pHostObject = m_host;
      add.ppMetricNames = &metric;
      add.numMetrics = 1;
      // Chips differ in what they count.
      if (cupti.addMetrics(&add) == CUPTI_SUCCESS) metrics.push_back(metric);
    }
    if (metrics.empty()) return Error{kCountersStage, std::string(kNoCounters) + ": it knows none of them.", "cuda", {}};
    auto size = sized<CUpti_Profiler_Host_GetConfigImageSize_Params>(CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
    size.pHostObject = m_host;
    NF_CUPTI_CALL(kNoCounters, cupti.configSize(&size));
    image.resize(size.configImageSize);
    auto config = sized<CUpti_Profiler_Host_GetConfigImage_Params>(CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
    config.pHostObject = m_host;
    config.configImageSize = image.size();
    config.pConfigImage = image.data();
    NF_CUPTI_CALL(kNoCounters, cupti.config(&config));
    return Unit{};
  }

  Result<std::vector<double>> valuesOf(const std::vector<std::uint8_t>& data) {
    const Cupti& cupti = m_cupti;
    std::vector<double> values(metrics.size());
    auto evaluate =
        sized<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
    evaluate.pHostObject = m_host;
    evaluate.pCounterDataImage = data.data();
    evaluate.counterDataImageSize = data.size();
    evaluate.ppMetricNames = metrics.data();
    evaluate.numMetrics = metrics.size();
    evaluate.pMetricValues = values.data();
    NF_CUPTI_CALL(kNoCounters, cupti.evaluate(&evaluate));
    return values;
  }

  std::vector<const char*> metrics;
  std::vector<std::uint8_t> image;

 private:
  const Cupti& m_cupti;
  std::vector<std::uint8_t> m_available;
  CUpti_Profiler_Host_Object* m_host = nullptr;
};

// The range profiler of a context while it is on.
class Ranges {
 public:
  explicit Ranges(const Cupti& cupti) : m_cupti(cupti) {}
  ~Ranges() {
    if (!m_object) return;
    auto disable = sized<CUpti_RangeProfiler_Disable_Params>(CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
    disable.pRangeProfilerObject = m_object;
    m_cupti.rangeDisable(&disable);
  }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  Result<Unit> enable(CUcontext context, Plan& plan) {
    const Cupti& cupti = m_cupti;
    auto enable = sized<CUpti_RangeProfiler_Enable_Params>(CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    enable.ctx = context;
    NF_CUPTI_CALL(kNoCounters, cupti.rangeEnable(&enable));
    m_object = enable.pRangeProfilerObject;
    auto size = sized<CUpti_RangeProfiler_GetCounterDataSize_Params>(CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    size.pRangeProfilerObject = m_object;
    size.pMetricNames = plan.metrics.data();
    size.numMetrics = plan.metrics.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    NF_CUPTI_CALL(kNoCounters, cupti.dataSize(&size));
    data.resize(size.counterDataSize);
    auto initialize = sized<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>(
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    initialize.pRangeProfilerObject = m_object;
    initialize.counterDataSize = data.size();
    initialize.pCounterData = data.data();
    NF_CUPTI_CALL(kNoCounters, cupti.dataInitialize(&initialize));
    auto configure = sized<CUpti_RangeProfiler_SetConfig_Params>(CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
    configure.pRangeProfilerObject = m_object;
    configure.configSize = plan.image.size();
    configure.pConfig = plan.image.data();
    configure.counterDataImageSize = data.size();
    configure.pCounterDataImage = data.data();
    configure.range = CUPTI_UserRange;
    configure.replayMode = CUPTI_UserReplay;
    configure.maxRangesPerPass = 1;
    configure.numNestingLevels = 1;
    configure.minNestingLevel = 1;
    // Where the first pass begins, as NVIDIA's samples of this interface have it; Start and Stop move on by themselves.
    configure.passIndex = 0;
    configure.targetNestingLevel = 0;
    NF_CUPTI_CALL(kNoCounters, cupti.rangeConfigure(&configure));
    return Unit{};
  }

  // One pass; whether it was the last.
  Result<bool> pass(const std::function<Result<Unit>()>& launchAndWait) {
    const Cupti& cupti = m_cupti;
    auto start = sized<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    start.pRangeProfilerObject = m_object;
    NF_CUPTI_CALL(kNoCounters, cupti.rangeStart(&start));
    auto push = sized<CUpti_RangeProfiler_PushRange_Params>(CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
    push.pRangeProfilerObject = m_object;
    push.pRangeName = "kernel";
    CUptiResult code = cupti.rangePush(&push);
    const bool pushed = code == CUPTI_SUCCESS;
    const Result<Unit> ran = pushed ? launchAndWait() : Result<Unit>(Unit{});
    if (pushed) {
      auto pop = sized<CUpti_RangeProfiler_PopRange_Params>(CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
      pop.pRangeProfilerObject = m_object;
      code = cupti.rangePop(&pop);
    }
    auto stop = sized<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    stop.pRangeProfilerObject = m_object;
    const CUptiResult stopped = cupti.rangeStop(&stop);
    if (!ran) return ran.error();
    NF_CUPTI_CALL(kNoCounters, code);
    NF_CUPTI_CALL(kNoCounters, stopped);
    return stop.isAllPassSubmitted != 0;
  }

  Result<Unit> decode() {
    const Cupti& cupti = m_cupti;
    auto decode = sized<CUpti_RangeProfiler_DecodeData_Params>(CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    decode.pRangeProfilerObject = m_object;
    NF_CUPTI_CALL(kNoCounters, cupti.rangeDecode(&decode));
    if (decode.numOfRangeDropped > 0) return Error{kCountersStage, "CUPTI had no room for the counters of a launch.", "cuda", {}};
    return Unit{};
  }

  std::vector<std::uint8_t> data;

 private:
  const Cupti& m_cupti;
  CUpti_RangeProfiler_Object* m_object = nullptr;
};

}  // namespace

Result<KernelCounters> countRange(const Cupti& cupti, CUcontext context, int device,
                                  const std::function<Result<Unit>()>& launchAndWait) {
  if (!cupti.hasRanges)
    return Error{
        kCountersStage, "The CUPTI that is installed has no range profiler: that of CUDA 12.6 or later is needed.", "cuda", {}};
  auto initialize = sized<CUpti_Profiler_Initialize_Params>(CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  NF_CUPTI_CALL(kNoCounters, cupti.profilerInitialize(&initialize));
  Plan plan(cupti);
  NF_TRY([[maybe_unused]] const Unit planned, plan.make(context, device));
  Ranges ranges(cupti);
  NF_TRY([[maybe_unused]] const Unit enabled, ranges.enable(context, plan));
  for (int pass = 0;; ++pass) {
    NF_TRY(const bool last, ranges.pass(launchAndWait));
    if (last) break;
    if (pass >= kMostPasses) return Error{kCountersStage, "CUPTI does not come to an end of its passes.", "cuda", {}};
  }
  NF_TRY([[maybe_unused]] const Unit decoded, ranges.decode());
  NF_TRY(const std::vector<double> values, plan.valuesOf(ranges.data));
  return countersFrom(plan.metrics, values);
}
#undef NF_CUPTI_CALL
#else
Result<KernelCounters> countRange(const Cupti&, CUcontext, int, const std::function<Result<Unit>()>&) {
  return Error{
      kCountersStage, "This program was built with the headers of a CUPTI before 12.6, which has no range profiler.", "cuda", {}};
}
#endif

}  // namespace nf::cuda
