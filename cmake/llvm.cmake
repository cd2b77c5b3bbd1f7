# SPDX-License-Identifier: Apache-2.0
# nf_llvm: what code that generates with LLVM links. Dynamic (libLLVM-19) by default; with NF_CARRY the archives of the parts
# below and what they need, so that the program asks the machine for libc alone.
find_package(LLVM 19.1 REQUIRED CONFIG)

add_library(nf_llvm INTERFACE)
target_include_directories(nf_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(nf_llvm INTERFACE ${definitions})

if(NF_CARRY)
  llvm_map_components_to_libnames(archives orcjit passes irreader linker bitreader target
    x86codegen x86asmparser x86desc x86info nvptxcodegen nvptxdesc nvptxinfo)
  # Debian's export names shared zstd and zlib, and the solver z3, which nothing here calls.
  find_library(NF_ZSTD_STATIC libzstd.a REQUIRED)
  find_library(NF_ZLIB_STATIC libz.a REQUIRED)
  get_target_property(support LLVMSupport INTERFACE_LINK_LIBRARIES)
  list(TRANSFORM support REPLACE "zstd::libzstd_shared" "${NF_ZSTD_STATIC}")
  list(TRANSFORM support REPLACE "ZLIB::ZLIB" "${NF_ZLIB_STATIC}")
  list(FILTER support EXCLUDE REGEX "tinfo|z3")
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${support}")
  target_link_libraries(nf_llvm INTERFACE ${archives})
else()
  target_link_libraries(nf_llvm INTERFACE LLVM)
endif()
