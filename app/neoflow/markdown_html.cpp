// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/markdown_html.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

namespace nf {
namespace {

struct Free {
  void operator()(cmark_parser* p) const { cmark_parser_free(p); }
  void operator()(cmark_node* n) const { cmark_node_free(n); }
  void operator()(cmark_iter* i) const { cmark_iter_free(i); }
  void operator()(char* text) const { std::free(text); }
};

void showHtmlAsText(cmark_node* document) {
  std::vector<cmark_node*> found;
  const std::unique_ptr<cmark_iter, Free> iter(cmark_iter_new(document));
  for (cmark_event_type event; (event = cmark_iter_next(iter.get())) != CMARK_EVENT_DONE;) {
    cmark_node* node = cmark_iter_get_node(iter.get());
    const cmark_node_type type = cmark_node_get_type(node);
    if (event == CMARK_EVENT_ENTER && (type == CMARK_NODE_HTML_INLINE || type == CMARK_NODE_HTML_BLOCK)) found.push_back(node);
  }
  for (cmark_node* node : found) {
    cmark_node* text = cmark_node_new(CMARK_NODE_TEXT);
    cmark_node_set_literal(text, cmark_node_get_literal(node));
    cmark_node* shown = text;
    if (cmark_node_get_type(node) == CMARK_NODE_HTML_BLOCK) {
      shown = cmark_node_new(CMARK_NODE_PARAGRAPH);
      cmark_node_append_child(shown, text);
    }
    cmark_node_replace(node, shown);
    cmark_node_free(node);
  }
}

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return out;
}

// Of the kinds that a page may have within itself.
const char* pictureType(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "image/webp";
  return nullptr;
}

std::string decoded(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < url.size(); ++i) {
    const int high = url[i] == '%' && i + 2 < url.size() ? digit(url[i + 1]) : -1, low = high < 0 ? -1 : digit(url[i + 2]);
    out += low < 0 ? url[i] : static_cast<char>(high * 16 + low);
    if (low >= 0) i += 2;
  }
  return out;
}

// The bytes of a regular file; empty: it is none, or too large. A device or a pipe might never end.
std::string pictureAt(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMost = 64 << 20;
  std::error_code no;
  if (!std::filesystem::is_regular_file(path, no)) return {};
  const std::uintmax_t size = std::filesystem::file_size(path, no);
  if (no || size > kMost) return {};
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// A page that is opened elsewhere has its pictures all the same.
void takePicturesIn(cmark_node* document, const std::filesystem::path& folder) {
  const std::unique_ptr<cmark_iter, Free> iter(cmark_iter_new(document));
  for (cmark_event_type event; (event = cmark_iter_next(iter.get())) != CMARK_EVENT_DONE;) {
    cmark_node* node = cmark_iter_get_node(iter.get());
    if (event != CMARK_EVENT_ENTER || cmark_node_get_type(node) != CMARK_NODE_IMAGE) continue;
    std::string_view url = cmark_node_get_url(node);
    constexpr std::string_view kFile = "file://";
    if (url.starts_with(kFile)) url.remove_prefix(kFile.size());
    else if (url.substr(0, url.find('/')).find(':') != std::string_view::npos) continue;
    const std::string bytes = pictureAt(folder / decoded(url));
    if (const char* type = pictureType(bytes))
      cmark_node_set_url(node, ("data:" + std::string(type) + ";base64," + base64(bytes)).c_str());
  }
}

}  // namespace

std::string markdownHtml(std::string_view markdown, const std::filesystem::path& folder) {
  cmark_gfm_core_extensions_ensure_registered();
  constexpr int kOptions = CMARK_OPT_DEFAULT;
  const std::unique_ptr<cmark_parser, Free> parser(cmark_parser_new(kOptions));
  for (const char* name : {"table", "strikethrough", "tasklist"})
    if (cmark_syntax_extension* extension = cmark_find_syntax_extension(name))
      cmark_parser_attach_syntax_extension(parser.get(), extension);
  cmark_parser_feed(parser.get(), markdown.data(), markdown.size());
  const std::unique_ptr<cmark_node, Free> document(cmark_parser_finish(parser.get()));
  showHtmlAsText(document.get());
  takePicturesIn(document.get(), folder);
  const std::unique_ptr<char, Free> html(
      cmark_render_html(document.get(), kOptions, cmark_parser_get_syntax_extensions(parser.get())));
  return html.get();
}

}  // namespace nf
