// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace nf {

// CommonMark with GitHub's tables, strikethrough and task lists as HTML. HTML in it is shown as the text that it is; links with schemes that run
// something lead nowhere. Pictures of regular files, whose names begin in `folder`, are part of it.
std::string markdownHtml(std::string_view markdown, const std::filesystem::path& folder);

}  // namespace nf
