// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Common subexpressions: of operators that compute the same values from the same tensors into the same type the first is kept, with
// the origins of all of them, part by part, and hints that name another mean it. Loops are compared by what happens inside them only, each for itself.
// Seeds of two losses stay two: what is trained by one has no places of the other.
//   before: M = max[k] X[i,k]; N = max[q] X[i,q]; Y = M + N      after: M = max[k] X[i,k]; Y = M + M
// `merged`, where it is asked for: by the name of a tensor that is gone that of the one in its place. Outside of loops what is kept has a
// name among `preferred` where one of the equal ones has.
using MergedNames = std::unordered_map<std::string, std::string>;
using Names = std::set<std::string, std::less<>>;
Result<Program> mergeEqualOperators(const Program& program, MergedNames* merged = nullptr, const Names& preferred = {});

// `program` is a part of `around`, made by the same passes: what stands there for operators that the part does not have comes here, too,
// from all of them.
void adoptMergedOrigins(Program& program, const Program& around, const MergedNames& merged);

}  // namespace nf
