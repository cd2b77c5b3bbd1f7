// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/markdown_html.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <cstdlib>
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

}  // namespace

std::string markdownHtml(std::string_view markdown) {
  cmark_gfm_core_extensions_ensure_registered();
  constexpr int kOptions = CMARK_OPT_DEFAULT;
  const std::unique_ptr<cmark_parser, Free> parser(cmark_parser_new(kOptions));
  for (const char* name : {"table", "strikethrough", "tasklist"})
    if (cmark_syntax_extension* extension = cmark_find_syntax_extension(name))
      cmark_parser_attach_syntax_extension(parser.get(), extension);
  cmark_parser_feed(parser.get(), markdown.data(), markdown.size());
  const std::unique_ptr<cmark_node, Free> document(cmark_parser_finish(parser.get()));
  showHtmlAsText(document.get());
  const std::unique_ptr<char, Free> html(
      cmark_render_html(document.get(), kOptions, cmark_parser_get_syntax_extensions(parser.get())));
  return html.get();
}

}  // namespace nf
