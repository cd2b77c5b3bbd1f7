// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace nf {

// CommonMark with GitHub's tables, strikethrough and task lists as HTML. HTML in it is shown as the text that it is; links with schemes that run
// something lead nowhere.
std::string markdownHtml(std::string_view markdown);

}  // namespace nf
