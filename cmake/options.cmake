# SPDX-License-Identifier: Apache-2.0
# Warnings, sanitizers, linker and compiler cache, for every target of the project.
add_library(nf_options INTERFACE)
target_include_directories(nf_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(nf_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)
# GCC 12 at -O3 sees overlaps and overflows inside std::string's own operator+ and append that cannot be (GCC bugs 105329, 105651,
# mended in 13): these warnings would stop a release build with NF_WERROR. Newer compilers and the debug builds keep them.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(nf_options INTERFACE
    "$<$<NOT:$<CONFIG:Debug>>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
endif()
if(NF_WERROR)
  target_compile_options(nf_options INTERFACE -Werror)
endif()
if(NF_SANITIZE)
  # What a sanitizer adds makes GCC take initialized parts of the standard library's <regex> for uninitialized.
  target_compile_options(nf_options INTERFACE -fsanitize=${NF_SANITIZE} -fno-omit-frame-pointer
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(nf_options INTERFACE -fsanitize=${NF_SANITIZE})
endif()
if(NF_LIBFUZZER)
  target_compile_options(nf_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(nf_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
# One file that needs glibc alone: only what is reached, no symbol exported (a driver in the process may bring its own LLVM).
if(NF_CARRY)
  target_compile_options(nf_options INTERFACE -ffunction-sections -fdata-sections -fvisibility=hidden -fvisibility-inlines-hidden)
  target_link_options(nf_options INTERFACE -Wl,--gc-sections -Wl,--exclude-libs,ALL -static-libstdc++ -static-libgcc -s)
endif()

find_program(NF_CCACHE ccache)
if(NF_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NF_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${NF_CCACHE})
endif()
find_program(NF_MOLD mold)
if(NF_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
