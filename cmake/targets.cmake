# SPDX-License-Identifier: Apache-2.0

# nf_library(NAME LINKS...): a static library of every source in this folder.
function(nf_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  list(FILTER sources INCLUDE REGEX ".*\\.(cpp|h)$")
  set(compiled ${sources})
  list(FILTER compiled INCLUDE REGEX "\\.cpp$")
  if(compiled)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC nf_options ${ARGN})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE nf_options ${ARGN})
  endif()
endfunction()

# nf_test(FOLDER LINKS...): one GoogleTest program of every source in tests/FOLDER.
function(nf_test folder)
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE nf_options GTest::gtest_main GTest::gmock ${ARGN})
  target_compile_definitions(test_${name} PRIVATE NF_SOURCE_DIR="${CMAKE_SOURCE_DIR}" NF_BINARY_DIR="${CMAKE_BINARY_DIR}")
  gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300
    PROPERTIES TIMEOUT 600 LABELS ${name}
               # Memory that there is not is an answer, as it is without a sanitizer.
               ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=path_list_append:allocator_may_return_null=1")
endfunction()
