// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <map>
#include <string>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

// Every `eval` of the notebook by its name.
std::map<std::string, double> valuesOf(const protocol::EvalEvent& eval);

// Per cent where the notebook calls it `accuracy` and it lies in [0, 1]; any other is a number, whatever it is called.
bool isShare(const std::string& name, double value);

// "97.22 %", "mae 0.1786, r2 0.91"; of an accuracy alone, and one that is a share, only the share. "worst 4.82 (mean over batches)":
// those that are named as `averaged`, EvalEvent's.
QString evalText(const std::map<std::string, double>& values, const std::vector<std::string>& averaged = {});

}  // namespace nf
