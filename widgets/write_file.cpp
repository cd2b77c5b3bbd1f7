// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/write_file.h"

#include <QFileInfo>
#include <QSaveFile>

namespace nf {

QString writeWhole(const QString& path, std::string_view bytes) {
  const bool there = QFileInfo::exists(path);
  const QFile::Permissions before = QFile::permissions(path);
  QSaveFile file(path);
  // Where the folder takes no new file there is no other way.
  file.setDirectWriteFallback(!QFileInfo(QFileInfo(path).absolutePath()).isWritable());
  const auto size = static_cast<qint64>(bytes.size());
  // commit() alone does not see that the last of the buffer found the disk full.
  const bool written = file.open(QIODevice::WriteOnly) && file.write(bytes.data(), size) == size && file.flush();
  if (!written) {
    if (file.isOpen()) file.flush();  // what cut the write short is said when it is tried again
    const QString error = file.errorString();
    file.cancelWriting();
    return error;
  }
  if (!file.commit()) return file.errorString();
  if (there && QFile::permissions(path) != before) QFile::setPermissions(path, before);
  return {};
}

}  // namespace nf
