// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/device/backend.h"

namespace nf::cuda {

// What the driver says of device `number`; opens no context. "cuda:0": number 0.
Result<Target> targetOf(int number);
std::string describe(int number);  // "NVIDIA H100, 132 multiprocessors, sm_90, 80 GB"
std::string nameOf(int number);

// A context of its own stream. Launches and copies are queued; what went wrong in them comes back from the next copyOut or
// synchronize. After an error of the driver the device is lost: every call fails with the first one's words.
Result<std::unique_ptr<Device>> openDevice(int number);

}  // namespace nf::cuda
