# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Configures SOURCE as its user would, with the compiled part, and installs it in PLACE/with_compiled.
set(build "${PLACE}/with_compiled_build")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${build}" -G Ninja
  -DKRAMA_ENABLE_TESTS=OFF -DKRAMA_INSTALL_COMPILED=ON ${OPTIONS}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE "${PLACE}/with_compiled")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${PLACE}/with_compiled"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
