# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Runs one compile-fail test: builds TARGET in BUILD and judges the outcome (see krama_add_compile_fail).

execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" --target "${TARGET}"
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(KIND STREQUAL "compiles")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "must compile with KRAMA_COMPILES defined, but:\n${output}")
  endif()
elseif(code EQUAL 0)
  message(FATAL_ERROR "compiled, but must not")
elseif(NOT output MATCHES "${MESSAGE}")
  message(FATAL_ERROR "did not compile, as it must, but nothing matches \"${MESSAGE}\" in:\n${output}")
endif()
