# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Installs BUILD under PLACE, moves the installed tree, and looks for paths of SOURCE or BUILD in it:
# a package that is copied to another machine must not know where it was built.
file(REMOVE_RECURSE "${PLACE}/installed" "${PLACE}/moved")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PLACE}/installed"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${PLACE}/installed" "${PLACE}/moved")
file(GLOB_RECURSE files "${PLACE}/moved/*")
if(NOT files)
  message(FATAL_ERROR "nothing was installed")
endif()
foreach(file IN LISTS files)
  file(READ "${file}" text)
  foreach(path IN ITEMS "${SOURCE}/" "${BUILD}" "${PLACE}")
    string(FIND "${text}" "${path}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names ${path}")
    endif()
  endforeach()
endforeach()
