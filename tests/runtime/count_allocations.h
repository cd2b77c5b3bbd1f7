// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

// Allocations of this process through operator new so far.
std::int64_t allocationCount();
