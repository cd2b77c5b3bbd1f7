// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFontMetrics>
#include <QString>
#include <QStringList>
#include <string>

namespace nf {

// Names of derivatives as one writes them by hand; other names as they are. In a longer text each of them is replaced. The source alone
// says `d(L)/d(W)`; the outline and the inspector, which name the loss, dL/dW; graphs, decisions, kernels and plots dW.
QString derivativeText(const QString& name);  // "dL/dW" for "d(L)/d(W)"
QString shortName(const QString& name);       // "dW", where the loss is understood; else dL/dW
inline QString shortName(const std::string& name) { return shortName(QString::fromStdString(name)); }

std::string lossOf(const std::string& tensor);  // "L" of "d(L)/d(W)"; empty: it is no derivative

// Of the notebook in sight: derivatives of several losses are told apart by them.
void setSeveralLosses(bool several);
bool hasSeveralLosses();

// Every way in which one may write the name: as the source, with its loss, and without it.
QStringList spellings(const QString& name);

// In at most `width` pixels: of "Vote.0 and 12 more" the name gives way, the count never.
QString elidedName(const QFontMetrics& metrics, const QString& name, int width);

// A fused kernel's name, "dW + sgd", in at most `most` characters: its last operator, whose result no other kernel makes, and how many
// more it has, "W.next +4".
QString kernelName(const std::string& name, int most);

}  // namespace nf
