// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/runtime/gradient_text.h"
#include "core/runtime/step_program.h"

namespace nf {

// What cells show, computed: lines of text by the number of the cell.
struct ShownValues {
  std::map<std::size_t, std::vector<std::string>> lines;
  std::string note;  // with which weights, or why there are none; empty: nothing is to be said
};

// The notebook as one self-contained page: its cells, what each defines and shows; `training`, the sections of its newest run where there is one;
// every fusion decision of what runs with its numbers and the constants it was made with, `intervals`: how far those may be off; the derived
// gradients, `gradients`, and how many terms were proved; pictures whose names begin in `folder`.
std::string notebookHtml(const CompiledNotebook& notebook, const NotebookStages& stages, const DeviceConstants& device,
                         const std::string& intervals, const std::string& training, const GradientsText& gradients,
                         const ShownValues& values, const std::filesystem::path& folder);

}  // namespace nf
