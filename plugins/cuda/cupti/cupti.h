// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#if __has_include(<cupti_range_profiler.h>)
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#define NF_CUPTI_RANGES 1
#endif

#include <memory>
#include <string>

#include "core/support/result.h"

namespace nf::cuda {

// Of every libcupti from CUDA 12.0 on.
#define NF_CUPTI(X)                                              \
  X(version, cuptiGetVersion)                                    \
  X(resultName, cuptiGetResultString)                            \
  X(registerCallbacks, cuptiActivityRegisterCallbacks)           \
  X(registerClock, cuptiActivityRegisterTimestampCallback)       \
  X(enable, cuptiActivityEnable)                                 \
  X(disable, cuptiActivityDisable)                               \
  X(flush, cuptiActivityFlushAll)                                \
  X(nextRecord, cuptiActivityGetNextRecord)                      \
  X(droppedRecords, cuptiActivityGetNumDroppedRecords)           \
  X(pushExternal, cuptiActivityPushExternalCorrelationId)        \
  X(popExternal, cuptiActivityPopExternalCorrelationId)          \
  X(profilerInitialize, cuptiProfilerInitialize)                 \
  X(counterAvailability, cuptiProfilerGetCounterAvailability)    \
  X(chipName, cuptiDeviceGetChipName)                            \
  X(samplingEnable, cuptiPCSamplingEnable)                       \
  X(samplingDisable, cuptiPCSamplingDisable)                     \
  X(samplingConfigure, cuptiPCSamplingSetConfigurationAttribute) \
  X(samplingStart, cuptiPCSamplingStart)                         \
  X(samplingStop, cuptiPCSamplingStop)                           \
  X(samplingData, cuptiPCSamplingGetData)                        \
  X(samplingCountReasons, cuptiPCSamplingGetNumStallReasons)     \
  X(samplingReasons, cuptiPCSamplingGetStallReasons)             \
  X(sourceLine, cuptiGetSassToSourceCorrelation)

// Of those from CUDA 12.6 on; null in older ones.
#ifdef NF_CUPTI_RANGES
#define NF_CUPTI_RANGE(X)                            \
  X(hostInitialize, cuptiProfilerHostInitialize)     \
  X(hostDeinitialize, cuptiProfilerHostDeinitialize) \
  X(addMetrics, cuptiProfilerHostConfigAddMetrics)   \
  X(configSize, cuptiProfilerHostGetConfigImageSize) \
  X(config, cuptiProfilerHostGetConfigImage)         \
  X(evaluate, cuptiProfilerHostEvaluateToGpuValues)  \
  X(rangeEnable, cuptiRangeProfilerEnable)           \
  X(rangeDisable, cuptiRangeProfilerDisable)         \
  X(rangeConfigure, cuptiRangeProfilerSetConfig)     \
  X(rangeStart, cuptiRangeProfilerStart)             \
  X(rangeStop, cuptiRangeProfilerStop)               \
  X(rangePush, cuptiRangeProfilerPushRange)          \
  X(rangePop, cuptiRangeProfilerPopRange)            \
  X(rangeDecode, cuptiRangeProfilerDecodeData)       \
  X(dataSize, cuptiRangeProfilerGetCounterDataSize)  \
  X(dataInitialize, cuptiRangeProfilerCounterDataImageInitialize)
#else
#define NF_CUPTI_RANGE(X)
#endif

// NVIDIA's profiling library, opened at run time.
struct Cupti {
#define NF_SLOT(slot, function) decltype(&::function) slot = nullptr;
  NF_CUPTI(NF_SLOT)
  NF_CUPTI_RANGE(NF_SLOT)
#undef NF_SLOT
  std::uint32_t number = 0;  // 130001: of CUDA 13.0; before 13 a count of its own
  bool hasRanges = false;

  // The one of this machine, once: where the loader looks, then lib64 and extras/CUPTI/lib64 of the places of a toolkit.
  static Result<const Cupti*> get();
  // The one at this path, or of this name.
  static Result<std::unique_ptr<const Cupti>> open(const std::string& path);
  // In one sentence, with what helps where the user can do something about it.
  Error failure(const std::string& what, CUptiResult code) const;
};

}  // namespace nf::cuda
