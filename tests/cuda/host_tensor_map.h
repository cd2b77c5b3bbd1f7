// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands in a CUtensorMap on this machine: the driver double writes it, and kernels' text that is compiled for this machine
// (host_run.cpp) has its text.
#define NF_HOST_TENSOR_MAP                                                                   \
  struct NfTensorMap {                                                                       \
    const char* base;                                                                        \
    unsigned long strides[5], extents[5]; /* bytes, the first those of an element; points */ \
    unsigned box[5];                                                                         \
    unsigned char axes, bytes, rounded, unused[17];                                          \
  };
#define NF_TEXT_OF(...) #__VA_ARGS__
#define NF_EXPANDED_TEXT_OF(...) NF_TEXT_OF(__VA_ARGS__)
