// SPDX-License-Identifier: Apache-2.0
// The order of calls is that of NVIDIA's CUPTI documentation, "PC Sampling API".
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "plugins/cuda/cupti/counters.h"
#include "plugins/cuda/emit.h"

namespace nf::cuda {
namespace {

constexpr std::size_t kMostPlaces = 4096;  // program counters that are told apart
constexpr int kRuns = 16;                  // a kernel of some microseconds is rarely met by a sample
constexpr std::uint32_t kPeriod = 5;       // a sample every 2^5 cycles of a multiprocessor, the shortest there is

template <class Params>
Params sized(std::size_t size, CUcontext context) {
  Params params;
  std::memset(&params, 0, sizeof params);
  params.size = size;
  params.ctx = context;
  return params;
}

// Room for what CUPTI writes of each program counter.
struct Buffer {
  explicit Buffer(std::size_t reasons) : places(kMostPlaces), stalls(kMostPlaces * reasons) {
    std::memset(&data, 0, sizeof data);
    data.size = sizeof data;
    data.collectNumPcs = kMostPlaces;
    data.pPcData = places.data();
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::memset(&places[i], 0, sizeof places[i]);
      places[i].size = sizeof places[i];
      places[i].stallReason = stalls.data() + i * reasons;
    }
  }
  std::vector<CUpti_PCSamplingPCData> places;
  std::vector<CUpti_PCSamplingStallReason> stalls;
  CUpti_PCSamplingData data;
};

struct Reasons {
  std::vector<std::uint32_t> numbers;
  std::vector<std::vector<char>> texts;
  std::string of(std::uint32_t number) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] == number) return texts[i].data();
    return "unknown";
  }
};

// "smsp__pcsamp_warps_issue_stalled_long_scoreboard" is "long_scoreboard".
std::string shortReason(const std::string& name) {
  const std::size_t at = name.find("stalled_");
  return at == std::string::npos ? name : name.substr(at + 8);
}

class Sampling {
 public:
  Sampling(const Cupti& cupti, CUcontext context) : m_cupti(cupti), m_context(context) {}
  ~Sampling() {
    if (!m_enabled) return;
    auto disable = sized<CUpti_PCSamplingDisableParams>(CUpti_PCSamplingDisableParamsSize, m_context);
    m_cupti.samplingDisable(&disable);
  }
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  CUptiResult begin() {
    auto enable = sized<CUpti_PCSamplingEnableParams>(CUpti_PCSamplingEnableParamsSize, m_context);
    if (const CUptiResult code = m_cupti.samplingEnable(&enable); code != CUPTI_SUCCESS) return code;
    m_enabled = true;
    std::size_t count = 0;
    auto number = sized<CUpti_PCSamplingGetNumStallReasonsParams>(CUpti_PCSamplingGetNumStallReasonsParamsSize, m_context);
    number.numStallReasons = &count;
    if (const CUptiResult code = m_cupti.samplingCountReasons(&number); code != CUPTI_SUCCESS) return code;
    reasons.numbers.resize(count);
    reasons.texts.assign(count, std::vector<char>(CUPTI_STALL_REASON_STRING_SIZE));
    std::vector<char*> texts;
    for (std::vector<char>& text : reasons.texts) texts.push_back(text.data());
    auto names = sized<CUpti_PCSamplingGetStallReasonsParams>(CUpti_PCSamplingGetStallReasonsParamsSize, m_context);
    names.numStallReasons = count;
    names.stallReasonIndex = reasons.numbers.data();
    names.stallReasons = texts.data();
    if (const CUptiResult code = m_cupti.samplingReasons(&names); code != CUPTI_SUCCESS) return code;
    m_held = std::make_unique<Buffer>(count);
    taken = std::make_unique<Buffer>(count);
    CUpti_PCSamplingConfigurationInfo attributes[5];
    std::memset(attributes, 0, sizeof attributes);
    attributes[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    attributes[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
    attributes[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
    attributes[1].attributeData.samplingPeriodData.samplingPeriod = kPeriod;
    attributes[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON;
    attributes[2].attributeData.stallReasonData.stallReasonCount = count;
    attributes[2].attributeData.stallReasonData.pStallReasonIndex = reasons.numbers.data();
    attributes[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL;
    attributes[3].attributeData.enableStartStopControlData.enableStartStopControl = 1;
    attributes[4].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    attributes[4].attributeData.samplingDataBufferData.samplingDataBuffer = &m_held->data;
    auto configure = sized<CUpti_PCSamplingConfigurationInfoParams>(CUpti_PCSamplingConfigurationInfoParamsSize, m_context);
    configure.numAttributes = std::size(attributes);
    configure.pPCSamplingConfigurationInfo = attributes;
    return m_cupti.samplingConfigure(&configure);
  }

  CUptiResult start() {
    auto start = sized<CUpti_PCSamplingStartParams>(CUpti_PCSamplingStartParamsSize, m_context);
    return m_cupti.samplingStart(&start);
  }
  CUptiResult stop() {
    auto stop = sized<CUpti_PCSamplingStopParams>(CUpti_PCSamplingStopParamsSize, m_context);
    return m_cupti.samplingStop(&stop);
  }
  CUptiResult read() {
    auto get = sized<CUpti_PCSamplingGetDataParams>(CUpti_PCSamplingGetDataParamsSize, m_context);
    get.pcSamplingData = &taken->data;
    return m_cupti.samplingData(&get);
  }

  Reasons reasons;
  std::unique_ptr<Buffer> taken;

 private:
  const Cupti& m_cupti;
  CUcontext m_context;
  bool m_enabled = false;
  std::unique_ptr<Buffer> m_held;  // CUPTI's own
};

// 0: none is known, or it is in what the kernel includes.
std::uint32_t lineOf(const Cupti& cupti, std::span<const std::byte> code, const CUpti_PCSamplingPCData& place) {
  CUpti_GetSassToSourceCorrelationParams params;
  std::memset(&params, 0, sizeof params);
  params.size = CUpti_GetSassToSourceCorrelationParamsSize;
  params.cubin = code.data();
  params.cubinSize = code.size();
  params.functionName = place.functionName;
  params.pcOffset = place.pcOffset;
  if (cupti.sourceLine(&params) != CUPTI_SUCCESS) return 0;
  const bool ofPrelude = params.fileName && std::strstr(params.fileName, preludeName());
  // CUPTI leaves both to the caller.
  std::free(params.fileName);
  std::free(params.dirName);
  return ofPrelude ? 0 : params.lineNumber;
}

}  // namespace

SampledLines sampleLines(const Cupti& cupti, CUcontext context, const std::function<Result<Unit>()>& launchAndWait,
                         const std::function<std::span<const std::byte>()>& code) {
  const auto without = [&](CUptiResult result) {
    return SampledLines{{}, cupti.failure("CUPTI does not sample the program counter", result).message};
  };
  Sampling sampling(cupti, context);
  if (const CUptiResult result = sampling.begin(); result != CUPTI_SUCCESS) return without(result);
  if (const CUptiResult result = sampling.start(); result != CUPTI_SUCCESS) return without(result);
  Result<Unit> ran = Unit{};
  for (int run = 0; ran && run < kRuns; ++run) ran = launchAndWait();
  const CUptiResult stopped = sampling.stop();
  if (!ran) return {{}, ran.error().message};
  if (stopped != CUPTI_SUCCESS) return without(stopped);

  struct At {
    std::int64_t samples = 0;
    std::map<std::string, std::int64_t> reasons;
  };
  std::map<std::uint32_t, At> lines;
  std::set<char*> names;  // many places share one, which is the caller's to free
  const std::span<const std::byte> cubin = code();
  for (;;) {
    if (const CUptiResult result = sampling.read(); result != CUPTI_SUCCESS) {
      for (char* name : names) std::free(name);
      return without(result);
    }
    const CUpti_PCSamplingData& data = sampling.taken->data;
    for (std::size_t i = 0; i < data.totalNumPcs && i < kMostPlaces; ++i) {
      const CUpti_PCSamplingPCData& place = data.pPcData[i];
      At& at = lines[cubin.empty() ? 0 : lineOf(cupti, cubin, place)];
      for (std::size_t r = 0; r < place.stallReasonCount; ++r) {
        at.samples += place.stallReason[r].samples;
        at.reasons[shortReason(sampling.reasons.of(place.stallReason[r].pcSamplingStallReasonIndex))] +=
            place.stallReason[r].samples;
      }
      char* const name = place.functionName;  // of a packed structure
      names.insert(name);
    }
    if (data.remainingNumPcs == 0 || data.totalNumPcs == 0) break;
  }
  for (char* name : names) std::free(name);
  SampledLines sampled;
  for (const auto& [line, at] : lines) {
    if (at.samples == 0) continue;
    const auto most =
        std::max_element(at.reasons.begin(), at.reasons.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    sampled.lines.push_back({line, at.samples, most->first});
  }
  std::stable_sort(sampled.lines.begin(), sampled.lines.end(), [](const auto& a, const auto& b) { return a.samples > b.samples; });
  const bool none = std::all_of(sampled.lines.begin(), sampled.lines.end(), [](const auto& l) { return l.line == 0; });
  if (cubin.empty()) sampled.without = "The driver assembled this kernel, and its code holds no lines.";
  else if (none && !sampled.lines.empty()) sampled.without = "This kernel was compiled without its lines.";
  return sampled;
}

}  // namespace nf::cuda
