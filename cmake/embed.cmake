# SPDX-License-Identifier: Apache-2.0

# nf_embed(TARGET NAME FILE): compiles the bytes of FILE into TARGET as  nf::kNAMEData  and  nf::kNAMESize.
function(nf_embed target name file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_data.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(SIZE ${file} size)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  file(CONFIGURE OUTPUT ${source} CONTENT "// SPDX-License-Identifier: Apache-2.0
namespace nf {
extern const unsigned char k${name}Data[];
extern const unsigned long k${name}Size;
const unsigned char k${name}Data[] = {
${bytes}
};
const unsigned long k${name}Size = ${size};
}  // namespace nf
")
  target_sources(${target} PRIVATE ${source})
endfunction()
