# Flags of every C target, and helpers for libraries and tests.
add_library(vnpu_flags INTERFACE)
target_include_directories(vnpu_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(vnpu_flags INTERFACE _GNU_SOURCE)
target_compile_options(vnpu_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wundef -Werror>
  -ffp-contract=off -fno-strict-aliasing)
if(VNPU_SANITIZE)
  foreach(kind ${VNPU_SANITIZE})
    target_compile_options(vnpu_flags INTERFACE -fsanitize=${kind})
    target_link_options(vnpu_flags INTERFACE -fsanitize=${kind})
  endforeach()
  target_compile_options(vnpu_flags INTERFACE -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
endif()

# vnpu_c_test(NAME libs...): one Criterion binary from tests/<folder>/NAME.c.
function(vnpu_c_test name)
  add_executable(${name} ${name}.c)
  target_link_libraries(${name} PRIVATE vnpu_flags ${ARGN} criterion m)
  target_compile_definitions(${name} PRIVATE VNPU_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} --json=${CMAKE_BINARY_DIR}/reports/${name}.json)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 ENVIRONMENT "CRITERION_JOBS=1"
    FAIL_REGULAR_EXPRESSION "LeakSanitizer;AddressSanitizer;runtime error;Tested: 0 ")
endfunction()
