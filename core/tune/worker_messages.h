// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/device/backend.h"
#include "core/tune/measure_service.h"
#include "core/tune/worker_process.h"

// What engine and workers say to each other. Headers are JSON objects; code travels as the frame's body. Both ends are one
// build, so there is no version; a message that does not parse is an Error all the same.
namespace nf {

struct WorkerMemory;

nlohmann::json targetToJson(const Target& target);
Result<Target> targetFromJson(const nlohmann::json& json);

// Everything of a kernel but its code.
nlohmann::json kernelToJson(const KernelObject& kernel);
Result<KernelObject> kernelFromJson(const nlohmann::json& json, std::vector<std::byte> code);

Result<Hash> hashFromHex(const std::string& hex);

nlohmann::json gateToJson(const GateReport& gate);
GateReport gateFromJson(const nlohmann::json& json);
nlohmann::json timingToJson(const Timing& timing);
Timing timingFromJson(const nlohmann::json& json);

nlohmann::json countersToJson(const KernelCounters& counters);
KernelCounters countersFromJson(const nlohmann::json& json);

// The measure answer's header.
nlohmann::json outcomeToJson(const MeasureOutcome& outcome);
Result<MeasureOutcome> outcomeFromJson(const nlohmann::json& json);

// Adds "program" (unless this worker knows it) and "hash" to a request; "forget" first when it knows too many. The program goes
// without its table of origins, which is that of the whole program; ids are numbered anew as compactOrigins() says.
void addProgram(nlohmann::json& request, const Program& program, const Hash& hash, WorkerMemory& memory);

// Origins that the tensors, axes, operators and scalars of a program name: entry i is the one that a worker knows as i.
std::vector<OriginId> compactOrigins(const Program& program);
// Back to the program's own ids, in a kernel's texts.
void restoreOrigins(KernelObject& kernel, const Program& program);

// An error where the text is no JSON object.
Result<nlohmann::json> parseObject(const std::string& text);

}  // namespace nf
