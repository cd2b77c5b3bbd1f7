// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/completion_list.h"

#include <QCoreApplication>
#include <algorithm>

namespace nf {

using protocol::SymbolInfo;
using protocol::SymbolKind;

namespace {

QString tr(const char* text) { return QCoreApplication::translate("Completion", text); }

QString iconOf(SymbolKind kind) {
  switch (kind) {
    case SymbolKind::Extent: return QStringLiteral("extent");
    case SymbolKind::Data: return QStringLiteral("data");
    case SymbolKind::Input: return QStringLiteral("input");
    case SymbolKind::Param: return QStringLiteral("param");
    case SymbolKind::State: return QStringLiteral("state");
    case SymbolKind::Function: return QStringLiteral("function");
    case SymbolKind::Const:
    case SymbolKind::Tensor:
    case SymbolKind::Loss:
    case SymbolKind::Eval: return QStringLiteral("tensor");
  }
  return {};
}

// Names as a person writes them; what the compiler made (Z.F, d(L)/d(W)) is written by other means.
bool isWritten(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

}  // namespace

std::vector<CompletionItem> completionsAt(std::string_view text, std::uint32_t cursor, const CompletionContext& context,
                                          const std::vector<SymbolInfo>& symbols) {
  using Kind = CompletionContext::Kind;
  std::vector<CompletionItem> all;
  const auto add = [&](const QString& word, const QString& detail, const QString& icon, bool call = false) {
    if (std::none_of(all.begin(), all.end(), [&](const CompletionItem& i) { return i.word == word; }))
      all.push_back({word, detail, icon, call});
  };
  const auto addSymbols = [&](auto&& wanted) {
    for (const SymbolInfo& s : symbols)
      if (isWritten(s.name) && wanted(s))
        add(QString::fromStdString(s.name), QString::fromStdString(s.detail), iconOf(s.kind), s.kind == SymbolKind::Function);
  };
  switch (context.kind) {
    case Kind::None:
    case Kind::NewName: return {};
    case Kind::Expression:
      for (const std::string_view index : indicesAround(text, cursor))
        if (std::none_of(symbols.begin(), symbols.end(), [&](const SymbolInfo& s) { return s.name == index; }))
          add(QString::fromUtf8(index.data(), static_cast<qsizetype>(index.size())), tr("index"), {});
      addSymbols([](const SymbolInfo&) { return true; });
      break;
    case Kind::Statement:
      addSymbols([](const SymbolInfo& s) { return s.kind == SymbolKind::State || s.kind == SymbolKind::Function; });
      break;
    case Kind::Initializer: addSymbols([](const SymbolInfo& s) { return s.kind == SymbolKind::Data; }); break;
    case Kind::Type:
    case Kind::Attribute:
    case Kind::AttributeValue:
    case Kind::Hint: break;
  }
  CompletionContext every = context;
  every.prefix.clear();
  for (const std::string_view word : languageWords(every))
    add(QString::fromUtf8(word.data(), static_cast<qsizetype>(word.size())), tr("language"), {}, isCall(word));

  const QString prefix = QString::fromStdString(context.prefix);
  std::vector<CompletionItem> first, second, third;
  for (CompletionItem& item : all) {
    if (item.word.startsWith(prefix)) first.push_back(std::move(item));
    else if (item.word.startsWith(prefix, Qt::CaseInsensitive)) second.push_back(std::move(item));
    else if (prefix.size() > 1 && item.word.contains(prefix, Qt::CaseInsensitive)) third.push_back(std::move(item));
  }
  // The letters as typed decide before the place of the symbol in the notebook does.
  std::move(second.begin(), second.end(), std::back_inserter(first));
  std::move(third.begin(), third.end(), std::back_inserter(first));
  return first;
}

QString signatureAt(const CompletionContext& context, const std::vector<SymbolInfo>& symbols) {
  if (!context.call) return {};
  for (const SymbolInfo& s : symbols)
    if (s.kind == SymbolKind::Function && s.name == context.call->function) return QString::fromStdString(s.detail);
  return {};
}

}  // namespace nf
