# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# krama_add_test(nn/test_gelu.cpp)                     one line for a test file
# krama_add_test(comm/test_reduce.cpp MPI)             at every count of KRAMA_TEST_RANKS
# krama_add_test(comm/test_pair.cpp MPI RANKS 2)       at these counts (an executable of its own)
# krama_add_mixed_test(mixed/test_step.cpp RANKS A:1 B:2)   unlike executables in one job
# krama_add_guarded_test(train/test_trainer.cpp MPI)   the same file once more, for the stand-in device
# krama_add_compile_fail(compile_fail/x.cpp MESSAGE "regex")
#
# A long test case is tagged "[.][full]": it runs in tests of its own that have the label full.
#
# Paths are relative to tests/. The files of one folder become one executable (krama_test_nn), those
# that are marked MPI another (krama_test_comm_mpi). LIBRARIES and DEFINITIONS are added to it.
# OPTIMISED, for one file of an executable: all of it is compiled as users compile. Other tests are
# optimised little in Release, and with KRAMA_UNITY_TESTS several files make one unit where they
# instantiate much the same. Compilers then need half the time. Names in the unnamed namespaces of such
# files are unique (tests/scripts/test_names.py).

set(KRAMA_TESTS_DIR "${PROJECT_SOURCE_DIR}/tests")
set(KRAMA_LAUNCH "${PROJECT_SOURCE_DIR}/scripts/launch")
set(KRAMA_TEST_ENVIRONMENT OMP_NUM_THREADS=1 OMP_PROC_BIND=false)
if(KRAMA_SANITIZE)
  list(APPEND KRAMA_TEST_ENVIRONMENT
    "LSAN_OPTIONS=suppressions=${KRAMA_TESTS_DIR}/support/lsan.supp:print_suppressions=0")
endif()
if(KRAMA_ENABLE_MPI)
  list(APPEND KRAMA_TEST_ENVIRONMENT "KRAMA_MPIEXEC=${MPIEXEC_EXECUTABLE}")
endif()
set(krama_test_threads 2)
option(KRAMA_UNITY_TESTS "Compile test files of one executable together, a few at a time" OFF)
set(krama_unity_files 4)
find_package(Python3 QUIET COMPONENTS Interpreter)

add_library(krama_test_flags INTERFACE)
target_link_libraries(krama_test_flags INTERFACE krama_dev_flags)
target_compile_options(krama_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)

function(krama_add_test file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MPI;OPTIMISED" "" "RANKS;LIBRARIES;DEFINITIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "krama_add_test(${file}): unknown words: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT EXISTS "${KRAMA_TESTS_DIR}/${file}")
    message(FATAL_ERROR "krama_add_test: there is no tests/${file}")
  endif()
  if(arg_MPI AND NOT KRAMA_ENABLE_MPI)
    return()
  endif()
  get_filename_component(module "${file}" DIRECTORY)
  string(REPLACE "/" "_" module "${module}")
  set(key "${module}")
  if(arg_MPI)
    string(APPEND key "_mpi")
    if(NOT arg_RANKS)
      set(arg_RANKS ${KRAMA_TEST_RANKS})
    else()
      string(REPLACE ";" "_" suffix "${arg_RANKS}")
      string(APPEND key "_np${suffix}")
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY krama_test_keys ${key})
  set_property(GLOBAL PROPERTY krama_test_${key}_module ${module})
  set_property(GLOBAL PROPERTY krama_test_${key}_ranks "${arg_RANKS}")
  foreach(what IN ITEMS LIBRARIES DEFINITIONS)
    set_property(GLOBAL APPEND PROPERTY krama_test_${key}_${what} ${arg_${what}})
  endforeach()
  if(arg_OPTIMISED)
    set_property(GLOBAL PROPERTY krama_test_${key}_optimised TRUE)
  endif()
  set_property(GLOBAL APPEND PROPERTY krama_test_${key}_sources "${KRAMA_TESTS_DIR}/${file}")
endfunction()

# krama_test_properties(NAME THREADS LABELS...): what every test has.
function(krama_test_properties name processors)
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 PROCESSORS ${processors}
    ENVIRONMENT "${KRAMA_TEST_ENVIRONMENT}" LABELS "${ARGN}")
endfunction()

# Includes of tests are written from tests/: "support/test_space.hpp".
function(krama_prepare_test target main)
  target_sources(${target} PRIVATE "${KRAMA_TESTS_DIR}/main/${main}.cpp")
  target_include_directories(${target} PRIVATE "${KRAMA_TESTS_DIR}")
  target_link_libraries(${target} PRIVATE krama_compiled_native Catch2::Catch2)
endfunction()

# krama_compile_together(TARGET SOURCES...): where files instantiate much the same: whole models.
function(krama_compile_together target)
  if(NOT target MATCHES "guarded|models|program|train")
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KRAMA_UNITY_TESTS}
    UNITY_BUILD_BATCH_SIZE ${krama_unity_files})
  if(Python3_FOUND)
    add_test(NAME scripts.names.${target} COMMAND "${Python3_EXECUTABLE}"
      "${KRAMA_TESTS_DIR}/scripts/test_names.py" ${ARGN})
    krama_test_properties(scripts.names.${target} 1 scripts)
  endif()
endfunction()

# Makes the executables that krama_add_test collected. Called once, after all folders.
function(krama_finish_tests)
  get_property(keys GLOBAL PROPERTY krama_test_keys)
  list(REMOVE_DUPLICATES keys)
  foreach(key IN LISTS keys)
    foreach(what IN ITEMS module ranks sources optimised LIBRARIES DEFINITIONS)
      get_property(${what} GLOBAL PROPERTY krama_test_${key}_${what})
    endforeach()
    set(target krama_test_${key})
    add_executable(${target} ${sources})
    if(ranks)
      krama_prepare_test(${target} mpi_main)
    else()
      krama_prepare_test(${target} serial_main)
    endif()
    target_link_libraries(${target} PRIVATE ${LIBRARIES})
    target_compile_definitions(${target} PRIVATE ${DEFINITIONS})
    krama_compile_together(${target} ${sources})
    if(optimised)
      target_link_libraries(${target} PRIVATE krama_dev_flags)
    else()
      target_link_libraries(${target} PRIVATE krama_test_flags)
      krama_use_test_pch(${target})
    endif()
    krama_has_long_tests(long ${sources})
    if(ranks)
      foreach(n IN LISTS ranks)
        add_test(NAME ${key}.np${n} COMMAND "${KRAMA_LAUNCH}" -n ${n} $<TARGET_FILE:${target}>)
        krama_test_properties(${key}.np${n} ${n} ${module} openmp np${n})
        if(long)
          add_test(NAME ${key}.full.np${n}
            COMMAND "${KRAMA_LAUNCH}" -n ${n} $<TARGET_FILE:${target}> "[full]")
          krama_long_test_properties(${key}.full.np${n} ${n} ${module} openmp np${n})
        endif()
      endforeach()
    else()
      add_test(NAME ${key} COMMAND ${target})
      krama_test_properties(${key} ${krama_test_threads} ${module} openmp)
      if(long)
        add_test(NAME ${key}.full COMMAND ${target} "[full]")
        krama_long_test_properties(${key}.full ${krama_test_threads} ${module} openmp)
      endif()
      set_property(TEST ${key} PROPERTY ENVIRONMENT
        OMP_NUM_THREADS=${krama_test_threads} OMP_PROC_BIND=false)
    endif()
  endforeach()
endfunction()

# krama_add_guarded_test(FILE [MPI]): FILE is compiled once more, for the stand-in device, and runs there
# with delayed work. The files of one folder become one executable. With MPI: on two ranks that have
# the device, and in jobs in which the first or the last rank has it and the others run the
# executable that krama_add_test(FILE MPI) made.
function(krama_add_guarded_test file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MPI" "" "")
  if(arg_MPI AND NOT KRAMA_ENABLE_MPI)
    return()
  endif()
  get_filename_component(module "${file}" DIRECTORY)
  set(key "${module}")
  if(arg_MPI)
    string(APPEND key "_mpi")
  endif()
  set_property(GLOBAL APPEND PROPERTY krama_guarded_keys ${key})
  set_property(GLOBAL PROPERTY krama_guarded_${key}_module ${module})
  set_property(GLOBAL APPEND PROPERTY krama_guarded_${key}_sources "${KRAMA_TESTS_DIR}/${file}")
endfunction()

# Makes what krama_add_guarded_test collected.
function(krama_finish_guarded_tests)
  get_property(keys GLOBAL PROPERTY krama_guarded_keys)
  if(keys)
    list(REMOVE_DUPLICATES keys)
  endif()
  foreach(key IN LISTS keys)
    get_property(module GLOBAL PROPERTY krama_guarded_${key}_module)
    get_property(sources GLOBAL PROPERTY krama_guarded_${key}_sources)
    set(target krama_test_guarded_${key})
    add_executable(${target} ${sources} "${KRAMA_TESTS_DIR}/main/delayed_work.cpp")
    target_link_libraries(${target} PRIVATE krama_guarded_flags)
    krama_use_test_pch(${target} krama_guarded_pch)
    krama_compile_together(${target} ${sources})
    if(NOT key MATCHES "_mpi$")
      krama_prepare_test(${target} serial_main)
      add_test(NAME guarded.${module} COMMAND ${target})
      krama_test_properties(guarded.${module} ${krama_test_threads} guarded ${module})
      set_property(TEST guarded.${module} PROPERTY ENVIRONMENT
        OMP_NUM_THREADS=${krama_test_threads} OMP_PROC_BIND=false)
      continue()
    endif()
    krama_prepare_test(${target} mpi_main)
    # The host's executable has tests of other files as well: both sides run those of these files.
    set(chosen "")
    foreach(source IN LISTS sources)
      get_filename_component(name "${source}" NAME_WE)
      list(APPEND chosen "[#${name}]")
    endforeach()
    list(JOIN chosen "," chosen)
    # In one order, whatever the order of files in the two executables.
    set(rank_G $<TARGET_FILE:${target}> "-#" --order lex "${chosen}")
    set(rank_H $<TARGET_FILE:krama_test_${key}> "-#" --order lex "${chosen}")
    foreach(job IN ITEMS "G:2" "G:1;H:1" "H:1;G:2")
      krama_job_command(command ranks suffix ${job})
      add_test(NAME guarded.${module}.${suffix} COMMAND ${command})
      krama_test_properties(guarded.${module}.${suffix} ${ranks} guarded ${module} np${ranks})
    endforeach()
  endforeach()
endfunction()

# krama_has_long_tests(RESULT FILES...): true when a test case is tagged "[full]".
function(krama_has_long_tests result)
  foreach(file IN LISTS ARGN)
    file(STRINGS "${file}" lines REGEX "\\[full\\]")
    if(lines)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} FALSE PARENT_SCOPE)
endfunction()

function(krama_long_test_properties name processors)
  krama_test_properties(${name} ${processors} ${ARGN} full)
  set_property(TEST ${name} PROPERTY TIMEOUT 3600)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT KRAMA_TEST_WATCHDOG=1800)
endfunction()

# Parsing Kokkos, Catch2 and fmt is most of a test's compile time; done once.
# krama_make_test_pch(NAME FLAGS [HEADERS...])
function(krama_make_test_pch name flags)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.cpp" CONTENT "")
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/${name}.cpp")
  target_link_libraries(${name} PRIVATE krama_compiled_native Catch2::Catch2 ${flags})
  target_precompile_headers(${name} PRIVATE <Kokkos_Core.hpp> <fmt/format.h>
    <catch2/catch_all.hpp> <algorithm> <array> <chrono> <cmath> <cstdint> <functional>
    <map> <memory> <random> <span> <string> <vector> ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # what ccache needs for precompiled headers of gcc
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# krama_use_test_pch(TARGET [PCH])
function(krama_use_test_pch target)
  set(pch krama_test_pch)
  if(ARGC GREATER 1)
    set(pch ${ARGV1})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# krama_add_mixed_test(FILE RANKS A:1 B:2 [NAME name]): A is built for x86-64-v3 without contraction
# and runs with oneDNN's AVX2 kernels, B natively with contraction. Several RANKS lists may be given
# by several calls with the same FILE.
function(krama_add_mixed_test file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "RANKS;LIBRARIES;DEFINITIONS")
  if(NOT KRAMA_ENABLE_MPI)
    return()
  endif()
  get_filename_component(base "${file}" NAME_WE)
  get_filename_component(module "${file}" DIRECTORY)
  string(REPLACE "/" "_" module "${module}")
  string(REGEX REPLACE "^test_" "" base "${base}")
  set(target krama_${module}_${base})
  if(NOT TARGET ${target}.v3)
    krama_add_unlike_executable(${target} "${KRAMA_TESTS_DIR}/${file}")
    foreach(side IN ITEMS v3 native)
      krama_prepare_test(${target}.${side} mpi_main)
      target_link_libraries(${target}.${side} PRIVATE ${arg_LIBRARIES})
      target_compile_definitions(${target}.${side} PRIVATE ${arg_DEFINITIONS})
    endforeach()
  endif()
  set(rank_A -env ONEDNN_MAX_CPU_ISA AVX2 $<TARGET_FILE:${target}.v3>)
  set(rank_B $<TARGET_FILE:${target}.native>)
  krama_job_command(command ranks suffix ${arg_RANKS})
  add_test(NAME ${module}.${base}.${suffix} COMMAND ${command})
  krama_test_properties(${module}.${base}.${suffix} ${ranks} ${module} mixed np${ranks})
  if(arg_TIMEOUT)
    set_property(TEST ${module}.${base}.${suffix} PROPERTY TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

# krama_job_command(COMMAND RANKS SUFFIX A:1 B:2): the command that starts one job, its number of ranks and
# a name for it, "A1_B2". The caller's variables rank_A and rank_B say what a rank of A and of B is:
# an executable, its arguments behind it and mpiexec's options before it.
function(krama_job_command command ranks suffix)
  set(words "${KRAMA_LAUNCH}")
  set(total 0)
  set(colon "")
  foreach(part IN LISTS ARGN)
    if(NOT part MATCHES "^([A-Z]):([0-9]+)$")
      message(FATAL_ERROR "RANKS takes parts like A:1, a kind of rank and a count, not \"${part}\"")
    endif()
    if(NOT DEFINED rank_${CMAKE_MATCH_1})
      message(FATAL_ERROR "RANKS: there are no ranks of kind ${CMAKE_MATCH_1} in this test")
    endif()
    math(EXPR total "${total} + ${CMAKE_MATCH_2}")
    list(APPEND words ${colon} -n ${CMAKE_MATCH_2} ${rank_${CMAKE_MATCH_1}})
    set(colon ":")
  endforeach()
  string(REPLACE ";" "_" name "${ARGN}")
  string(REPLACE ":" "" name "${name}")
  set(${command} "${words}" PARENT_SCOPE)
  set(${ranks} ${total} PARENT_SCOPE)
  set(${suffix} ${name} PARENT_SCOPE)
endfunction()

# krama_add_compile_fail(FILE MESSAGE REGEX): passes only if FILE does not compile and the compiler
# says something that matches. The same FILE must compile with -DKRAMA_COMPILES, so that it fails for
# the reason it is meant to. The compiler is called with the flags of the other tests.
function(krama_add_compile_fail file)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MESSAGE" "")
  set(flags "${PROJECT_BINARY_DIR}/krama_compile_fail.flags")
  get_property(written GLOBAL PROPERTY krama_compile_fail_flags)
  if(NOT written)
    set_property(GLOBAL PROPERTY krama_compile_fail_flags TRUE)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
    set(includes "$<TARGET_PROPERTY:krama_test_pch,INCLUDE_DIRECTORIES>")
    set(includes "$<FILTER:${includes},EXCLUDE,^/usr/include$>")
    file(GENERATE OUTPUT "${flags}" CONTENT "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}
${CMAKE_CXX20_STANDARD_COMPILE_OPTION}
-D$<JOIN:$<TARGET_PROPERTY:krama_test_pch,COMPILE_DEFINITIONS>,\n-D>
-isystem $<JOIN:$<REMOVE_DUPLICATES:${includes}>,\n-isystem >
$<JOIN:$<REMOVE_DUPLICATES:$<TARGET_PROPERTY:krama_test_pch,COMPILE_OPTIONS>>,\n>
-include $<TARGET_PROPERTY:krama_test_pch,BINARY_DIR>/CMakeFiles/krama_test_pch.dir/cmake_pch.hxx
-fsyntax-only
" TARGET krama_test_pch)
  endif()
  get_filename_component(base "${file}" NAME_WE)
  foreach(kind IN ITEMS fails compiles)
    add_test(NAME compile_fail.${base}.${kind} COMMAND "${CMAKE_COMMAND}"
      "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DFLAGS=${flags}" "-DFILE=${KRAMA_TESTS_DIR}/${file}"
      "-DKIND=${kind}" "-DMESSAGE=${arg_MESSAGE}"
      -P "${PROJECT_SOURCE_DIR}/cmake/KramaCompileFail.cmake")
    krama_test_properties(compile_fail.${base}.${kind} 1 compile_fail)
  endforeach()
endfunction()
