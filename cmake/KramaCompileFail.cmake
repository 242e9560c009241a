# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# One compile-fail test: calls COMPILER on FILE and judges the outcome (see krama_add_compile_fail).

# The flags as CMake keeps them for itself, one a line.
file(STRINGS "${FLAGS}" flags)
list(TRANSFORM flags REPLACE "^SHELL:" "")
list(JOIN flags " " flags)
separate_arguments(flags UNIX_COMMAND "${flags}")
set(define "")
if(KIND STREQUAL "compiles")
  set(define -DKRAMA_COMPILES)
endif()
execute_process(COMMAND "${COMPILER}" ${flags} ${define} "${FILE}"
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(KIND STREQUAL "compiles")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "must compile with KRAMA_COMPILES defined, but:\n${output}")
  endif()
elseif(code EQUAL 0)
  message(FATAL_ERROR "compiled, but must not")
elseif(NOT output MATCHES "${MESSAGE}")
  message(FATAL_ERROR
    "did not compile, as it must not, but nothing matches \"${MESSAGE}\" in:\n${output}")
endif()
