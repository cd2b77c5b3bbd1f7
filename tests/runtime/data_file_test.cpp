// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "core/runtime/data_bytes.h"
#include "core/runtime/data_file.h"

namespace nf {
namespace {

using testing::HasSubstr;

std::string scratch(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() / ("nf-data-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

std::string deflated(const std::string& bytes, int windowBits) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(bytes.size() + 200, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

HostTensor sample(DType type, std::vector<std::int64_t> shape) {
  HostTensor t = HostTensor::make(type, std::move(shape));
  for (std::int64_t i = 0; i < t.elements(); ++i)
    t.set(i, type == DType::I32 ? static_cast<double>(i * 7 - 3) : static_cast<double>(i) * 0.25 - 1.5);
  return t;
}

TEST(HostTensor, HalfTypesRoundToNearestEven) {
  HostTensor h = HostTensor::make(DType::F16, {8});
  const double given[] = {1.0, -2.5, 65504.0, 70000.0, 1.0 + 0x1p-11, 1.0 + 0x1p-11 + 0x1p-13, 0x1p-24, 0x1p-26};
  const double kept[] = {1.0, -2.5, 65504.0, INFINITY, 1.0, 1.0 + 0x1p-10, 0x1p-24, 0.0};
  for (int i = 0; i < 8; ++i) {
    h.set(i, given[i]);
    EXPECT_EQ(h.at(i), kept[i]) << i;
  }
  h.set(0, NAN);
  EXPECT_TRUE(std::isnan(h.at(0)));
  HostTensor b = HostTensor::make(DType::BF16, {3});
  b.set(0, 1.0 + 0x1p-8);
  b.set(1, 1.0 + 0x1p-8 + 0x1p-12);
  b.set(2, 1e39);
  EXPECT_EQ(b.at(0), 1.0);
  EXPECT_EQ(b.at(1), 1.0 + 0x1p-7);
  EXPECT_EQ(b.at(2), INFINITY);
}

TEST(HostTensor, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    for (const DType type : {DType::F16, DType::BF16}) {
      const auto half = static_cast<std::uint16_t>(bits);
      std::uint16_t back = 0;
      const double value = loadValue(type, &half, 0);
      if (std::isnan(value)) continue;
      storeValue(type, &back, 0, value);
      ASSERT_EQ(back, half) << name(type) << " " << bits;
    }
  }
}

TEST(Csv, ReadsNumbersHeadersAndGzip) {
  const std::string text = "a,b,c\n1,2.5,-3e2\n 4 ,\"5\",+6\r\n\n";
  for (const std::string& bytes : {text, deflated(text, 31), deflated(text.substr(0, 12), 31) + deflated(text.substr(12), 31)}) {
    const auto table = parseCsv(bytes, "t.csv");
    ASSERT_TRUE(table.ok()) << table.error().message;
    EXPECT_EQ(table->shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(table->at(2), -300.0);
    EXPECT_EQ(table->at(4), 5.0);
    EXPECT_EQ(table->at(5), 6.0);
  }
}

TEST(Csv, QuotesHoldSeparatorsAndLinesOfANumberSignAreComments) {
  const auto table = parseCsv("# made by hand\n\"width, cm\";\"say \"\"x\"\"; y\"\n\"1\";2\n# 9;9\n3;\"4\"\n", "t.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(table->at(3), 4.0);
  EXPECT_THAT(parseCsv("1,2\n\"3,4\n", "t.csv").error().message, HasSubstr("line 2, column 1"));
}

TEST(Csv, NamesLineAndColumnOfAMistake) {
  for (const char* beyond : {"1e400", "1e-400"})
    EXPECT_THAT(parseCsv("1,2\n3," + std::string(beyond) + "\n", "t.csv").error().message,
                HasSubstr("line 2, column 2: \"" + std::string(beyond) + "\" is beyond the range of double precision"));
  // As spreadsheets of many countries write them.
  for (const char* text : {"1,5;2,5\n3,5;4,5\n", "a;b\n1,5;2\n", "x,y\n\"1,5\",2\n"})
    EXPECT_THAT(parseCsv(text, "t.csv").error().message, HasSubstr("a decimal comma is not read, only a point, as in 1.5")) << text;
  EXPECT_TRUE(parseCsv("1.5;2.5\n3.5;4\n", "t.csv").ok());
  EXPECT_THAT(parseCsv("1,2\n3,abc\n", "t.csv").error().message, testing::Not(HasSubstr("comma")));
  EXPECT_THAT(parseCsv("1,2\n3,abc\n", "t.csv").error().message, HasSubstr("t.csv: line 2, column 2: \"abc\" is no number"));
  EXPECT_THAT(parseCsv("1,2\n3\n", "t.csv").error().message, HasSubstr("line 2 has 1 field, the lines before it have 2"));
  EXPECT_THAT(parseCsv("a,b\n", "t.csv").error().message, HasSubstr("holds no rows"));
  EXPECT_THAT(parseCsv("1,b\n", "t.csv").error().message, HasSubstr("line 1, column 2"));
  EXPECT_THAT(parseCsv(deflated("1,2\n3,4\n", 31).substr(0, 20), "t.csv").error().message, HasSubstr("ends too early"));
  EXPECT_THAT(readCsv("/nowhere/at/all.csv").error().message, HasSubstr("cannot be opened"));
}

TEST(Npy, RoundTripsEveryType) {
  for (const DType type : {DType::F32, DType::F64, DType::F16, DType::I32})
    for (const auto& shape : {std::vector<std::int64_t>{}, {5}, {2, 3}, {2, 0, 3}, {1, 2, 3, 4}}) {
      const HostTensor t = sample(type, shape);
      const std::string bytes = npyBytes(t);
      EXPECT_EQ(bytes.find('\n') % 64, 63u);
      const auto back = parseNpy(bytes, "x.npy");
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(*back, t);
    }
  const HostTensor brain = sample(DType::BF16, {3});
  EXPECT_EQ(*parseNpy(npyBytes(brain), "x"), converted(brain, DType::F32));
}

TEST(Npy, ReadsColumnMajorBigEndianAndIntegers) {
  std::string header = "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 3), }\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  appendLittleEndian(bytes, header.size(), 2);
  bytes += header;
  for (const std::int64_t v : {1, 4, 2, 5, 3, -6})
    for (int b = 7; b >= 0; --b) bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(v) >> (8 * b)));
  const auto t = parseNpy(bytes, "x.npy");
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(t->type, DType::I32);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->at(i), i == 5 ? -6 : i + 1);
  bytes[bytes.size() - 8] = 1;
  // One that 32 bits do not hold: all are read as the numbers they are.
  const auto wide = parseNpy(bytes, "x.npy");
  ASSERT_TRUE(wide.ok()) << wide.error().message;
  EXPECT_EQ(wide->type, DType::F64);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(wide->at(i), i + 1);
  EXPECT_EQ(wide->at(5), 144115188075855866.0);
}

TEST(Npz, RoundTripsAndReadsDeflatedMembers) {
  const NamedTensors tensors = {{"W", sample(DType::F32, {3, 4})}, {"b", sample(DType::I32, {2})}};
  const std::string path = scratch("x.npz");
  ASSERT_TRUE(writeNpz(path, tensors).ok());
  EXPECT_EQ(*readNpz(path, "b"), tensors[1].second);
  const auto all = readNpzAll(path);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, tensors);
  EXPECT_THAT(readNpz(path, "c").error().message, HasSubstr("has no member \"c\"; it has W, b"));

  const std::string data = npyBytes(tensors[0].second), packed = deflated(data, -15);
  std::string zip;
  const auto fields = [&](std::string& to) {
    appendLittleEndian(to, 20, 2);
    appendLittleEndian(to, 0, 2);
    appendLittleEndian(to, 8, 2);
    appendLittleEndian(to, 0, 4);
    appendLittleEndian(to, crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())), 4);
    appendLittleEndian(to, packed.size(), 4);
    appendLittleEndian(to, data.size(), 4);
    appendLittleEndian(to, 5, 2);
    appendLittleEndian(to, 0, 2);
  };
  appendLittleEndian(zip, 0x04034b50u, 4);
  fields(zip);
  zip += "W.npy" + packed;
  const std::size_t directory = zip.size();
  appendLittleEndian(zip, 0x02014b50u, 4);
  appendLittleEndian(zip, 20, 2);
  fields(zip);
  zip.append(10, '\0');
  appendLittleEndian(zip, 0, 4);
  zip += "W.npy";
  const std::size_t end = zip.size();
  appendLittleEndian(zip, 0x06054b50u, 4);
  appendLittleEndian(zip, 0, 4);
  appendLittleEndian(zip, 1, 2);
  appendLittleEndian(zip, 1, 2);
  appendLittleEndian(zip, end - directory, 4);
  appendLittleEndian(zip, directory, 4);
  appendLittleEndian(zip, 0, 2);
  const auto unpacked = parseNpz(zip, "z.npz");
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().message;
  EXPECT_EQ(unpacked->front().second, tensors[0].second);
}

TEST(Safetensors, RoundTrips) {
  const NamedTensors tensors = {
      {"a", sample(DType::BF16, {2, 2})}, {"b.c", sample(DType::F64, {3})}, {"i", sample(DType::I32, {})}};
  const std::string path = scratch("w.safetensors");
  ASSERT_TRUE(writeSafetensors(path, tensors).ok());
  const auto all = readSafetensorsAll(path);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(*all, tensors);
  EXPECT_EQ(*readSafetensors(path, "b.c"), tensors[1].second);
  EXPECT_THAT(readSafetensors(path, "zz").error().message, HasSubstr("has no tensor \"zz\"; it has a, b.c, i"));
}

TEST(Safetensors, AFileThatIsCutBehindTheWantedTensorIsRefused) {
  const NamedTensors tensors = {{"a", sample(DType::F32, {2, 2})}, {"b", sample(DType::F64, {3})}};
  const std::string whole = safetensorsBytes(tensors);
  const std::string path = scratch("cut.safetensors");
  ASSERT_TRUE(writeFileAtomically(path, whole).ok());
  EXPECT_EQ(*readSafetensors(path, "a"), tensors[0].second);
  ASSERT_TRUE(writeFileAtomically(path, whole.substr(0, whole.size() - 1)).ok());
  const auto cut = readSafetensors(path, "a");
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().message,
              HasSubstr("tensor b: its data ends at byte 40, the file's at byte 39: the file is cut off or damaged"));
}

TEST(Idx, ReadsImagesAndLabels) {
  std::string bytes("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03", 16);
  bytes += std::string("\x01\x02\xff\x04\x05\x06", 6);
  for (const std::string& b : {bytes, deflated(bytes, 31)}) {
    const auto t = parseIdx(b, "train.idx");
    ASSERT_TRUE(t.ok()) << t.error().message;
    EXPECT_EQ(t->shape, (std::vector<std::int64_t>{2, 1, 3}));
    EXPECT_EQ(t->at(2), 255);
  }
  EXPECT_THAT(parseIdx(bytes.substr(0, 20), "train.idx").error().message, HasSubstr("fewer values"));
}

// Cut, flipped and inserted bytes: an answer or an error, never a crash (run under the sanitizers).
TEST(DataFiles, DamagedBytesAreErrorsOrValues) {
  const unsigned seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const NamedTensors tensors = {{"a", sample(DType::F32, {2, 3})}, {"b", sample(DType::I32, {4})}};
  const std::string path = scratch("fuzz.npz");
  ASSERT_TRUE(writeNpz(path, tensors).ok());
  const std::string npz = *readFile(path);
  const std::string inputs[] = {npz,
                                safetensorsBytes(tensors),
                                npyBytes(tensors[0].second),
                                deflated("1,2\n3,4\n", 31),
                                "1,2\n3,4\n",
                                std::string("\0\0\x0d\x01\0\0\0\x02"
                                            "abcdefgh",
                                            16)};
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = inputs[rng() % std::size(inputs)];
    for (unsigned n = rng() % 4 + 1; n-- > 0 && !bytes.empty();) {
      const std::size_t at = rng() % bytes.size();
      switch (rng() % 3) {
        case 0: bytes[at] = static_cast<char>(rng()); break;
        case 1: bytes.resize(at); break;
        default: bytes.insert(at, 1, static_cast<char>(rng())); break;
      }
    }
    static_cast<void>(parseNpz(bytes, "f"));
    static_cast<void>(parseSafetensors(bytes, "f"));
    static_cast<void>(parseNpy(bytes, "f"));
    static_cast<void>(parseCsv(bytes, "f"));
    static_cast<void>(parseIdx(bytes, "f"));
  }
}

TEST(DataFiles, AHugeShapeIsRefusedBeforeMemoryIsTaken) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3), }\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  appendLittleEndian(bytes, header.size(), 2);
  EXPECT_THAT(parseNpy(bytes + header, "x").error().message, HasSubstr("overflows"));
}

}  // namespace
}  // namespace nf
