// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"

namespace nf {

// Of one value of a node; a power with a small whole exponent is a few products.
int flopsOfNode(const Program& program, const ScalarNode& node);

// Arithmetic operations that one execution has to do, for rates that are held against a device's: a branch that indices decide counts
// at the points that take it (a zero is no work), one that data decide counts whole, and a value stands once for all points that share
// it. At most flopsOf. Where a condition joins more than 65,536 points, their share is that of as many taken evenly.
std::int64_t workOf(const Program& program, OperatorId op);
std::int64_t workOf(const Program& program);  // of all its operators

// Bytes that one execution of a kernel moves at least once: of each tensor that it does not make itself as many elements as its accesses
// can reach, the whole tensor at most (a loop's body reads a slice of what the loop stacks), and its outputs.
std::int64_t trafficOf(const Program& kernel);

}  // namespace nf
