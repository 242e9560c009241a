# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Flags for Krama's own tests, examples and benchmarks. Nothing of this is exported.

set(KRAMA_SANITIZE "" CACHE STRING "Sanitizers of the development build, e.g. address,undefined")

# Warnings are errors, everywhere but in a build for a device, whose compiler passes on code of its own
# to the host's (./toolbox check-devices is strict about device code).
add_library(krama_warnings INTERFACE)
target_compile_options(krama_warnings INTERFACE -Wall -Wextra)
if(NOT "CUDA" IN_LIST Kokkos_DEVICES AND NOT "HIP" IN_LIST Kokkos_DEVICES)
  target_compile_options(krama_warnings INTERFACE
    -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)
endif()
if(KRAMA_SANITIZE)
  target_compile_options(krama_warnings INTERFACE
    -fsanitize=${KRAMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(krama_warnings INTERFACE -fsanitize=${KRAMA_SANITIZE})
endif()

# Every build of the project uses ISO C++ and optimises the same way: -O3 in Release.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

# The two sides of a mixed job on CPUs: executables of one source that disagree in the last bits of
# almost everything, as two vendors' devices do. v3 still has the fused multiply-add instruction
# that Krama's optimizers rely on.
set(krama_v3_options -ffp-contract=off)
set(krama_native_options -ffp-contract=fast)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(PREPEND krama_v3_options -march=x86-64-v3)
  list(PREPEND krama_native_options -march=native)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(PREPEND krama_v3_options -march=armv8-a)
  list(PREPEND krama_native_options -mcpu=native)
endif()
foreach(side IN ITEMS v3 native)
  add_library(krama_${side}_flags INTERFACE)
  target_link_libraries(krama_${side}_flags INTERFACE krama_warnings)
  target_compile_options(krama_${side}_flags INTERFACE ${krama_${side}_options})
  krama_add_compiled(krama_compiled_${side} krama_${side}_flags)
endforeach()

# What everything else of the development build is compiled with.
add_library(krama_dev_flags INTERFACE)
target_link_libraries(krama_dev_flags INTERFACE krama_native_flags)
# The stand-in device for tests leans on the inside of one version of Kokkos, and on its OpenMP threads.
set(KRAMA_HAS_GUARDED_DEVICE OFF)
if(Kokkos_VERSION MATCHES "^5\\.2\\." AND "OPENMP" IN_LIST Kokkos_DEVICES)
  set(KRAMA_HAS_GUARDED_DEVICE ON)
endif()

# krama_add_unlike_executable(TARGET SOURCES...): TARGET.v3 and TARGET.native from the same sources.
function(krama_add_unlike_executable target)
  foreach(side IN ITEMS v3 native)
    add_executable(${target}.${side} ${ARGN})
    target_link_libraries(${target}.${side} PRIVATE krama_compiled_${side} krama_${side}_flags)
    target_compile_definitions(${target}.${side} PRIVATE KRAMA_BUILD_NAME="${side}")
    # GCC contracts from -O2 on; with less (Debug, sanitizers) the two would not be unlike.
    target_compile_options(${target}.${side} PRIVATE $<$<NOT:$<CONFIG:Release>>:-O2>)
  endforeach()
endfunction()
