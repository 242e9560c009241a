# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Finds what Krama stands on: a target that the parent project already has, else an installed
# package, else (KRAMA_FETCH_DEPS) a pinned release, else one message that says what to do.
# Sets KRAMA_HAS_ONEDNN and KRAMA_HAS_OPENBLAS, and what KramaDeviceLibraries.cmake does;
# krama_libraries lists the targets of the libraries that may be missing and were found.

# krama_need(NAME TARGET VERSION HINT); a macro, so that the package's variables stay visible
macro(krama_need name target version hint)
  if(NOT TARGET ${target})
    find_package(${name} ${version} QUIET CONFIG GLOBAL)
    if(NOT TARGET ${target} AND KRAMA_FETCH_DEPS)
      include("${PROJECT_SOURCE_DIR}/cmake/KramaFetch.cmake")
      krama_fetch(${name})
    endif()
    if(NOT TARGET ${target})
      set(krama_found "CMake finds none")
      if(${name}_CONSIDERED_VERSIONS)
        set(krama_found "CMake finds ${${name}_CONSIDERED_VERSIONS} (${${name}_CONSIDERED_CONFIGS})")
      elseif(${name}_NOT_FOUND_MESSAGE)
        set(krama_found "${${name}_NOT_FOUND_MESSAGE}")
      endif()
      message(FATAL_ERROR "Krama needs ${name} ${version} or newer, and ${krama_found}. ${hint} "
        "Where it is not in a standard place, add its prefix to CMAKE_PREFIX_PATH; or let "
        "-DKRAMA_FETCH_DEPS=ON download it; or use ./toolbox, which brings everything along.")
    endif()
  endif()
endmacro()

krama_need(Kokkos Kokkos::kokkos 4.6 "It comes with Spack and, as libkokkos-dev, with Debian sid.")
krama_need(fmt fmt::fmt 9 "Its package is libfmt-dev or fmt-devel.")
krama_need(nlohmann_json nlohmann_json::nlohmann_json 3.10 "Its package is nlohmann-json3-dev.")
if(KRAMA_ENABLE_TESTS)
  krama_need(Catch2 Catch2::Catch2 3 "Its package is catch2.")
endif()

if(KRAMA_ENABLE_MPI AND NOT TARGET MPI::MPI_CXX)
  find_package(MPI 3.1 QUIET GLOBAL COMPONENTS CXX)
  if(NOT TARGET MPI::MPI_CXX)
    message(FATAL_ERROR "Krama needs MPI 3.1 or newer, and CMake finds none. Its package is "
      "libmpich-dev or mpich-devel (mpicxx must be on the PATH); or configure with "
      "-DKRAMA_ENABLE_MPI=OFF for programs of one rank.")
  endif()
endif()

set(krama_libraries "")

set(KRAMA_HAS_ONEDNN OFF)
if(KRAMA_ENABLE_ONEDNN)
  if(NOT TARGET DNNL::dnnl)
    find_package(dnnl 3 QUIET CONFIG GLOBAL)
  endif()
  if(TARGET DNNL::dnnl)
    set(KRAMA_HAS_ONEDNN ON)
    list(APPEND krama_libraries DNNL::dnnl)
  endif()
endif()

# OpenBLAS' own CMake package carries wrong paths on Debian, so header and library are looked for.
# Its OpenMP build shares the threads of Kokkos' OpenMP back end and is preferred.
set(KRAMA_HAS_OPENBLAS OFF)
if(KRAMA_ENABLE_OPENBLAS)
  find_path(KRAMA_OPENBLAS_INCLUDE openblas_config.h
    PATH_SUFFIXES "${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp" openblas-openmp openblas)
  find_library(KRAMA_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp)
  mark_as_advanced(KRAMA_OPENBLAS_INCLUDE KRAMA_OPENBLAS_LIBRARY)
  if(KRAMA_OPENBLAS_INCLUDE AND KRAMA_OPENBLAS_LIBRARY)
    set(KRAMA_HAS_OPENBLAS ON)
    list(APPEND krama_libraries krama_openblas)
    add_library(krama_openblas INTERFACE)
    add_library(krama::krama_openblas ALIAS krama_openblas)
    target_include_directories(krama_openblas SYSTEM INTERFACE "${KRAMA_OPENBLAS_INCLUDE}")
    target_link_libraries(krama_openblas INTERFACE "${KRAMA_OPENBLAS_LIBRARY}")
  endif()
endif()

include("${PROJECT_SOURCE_DIR}/cmake/KramaDeviceLibraries.cmake")

if(PROJECT_IS_TOP_LEVEL)
  set(krama_mpi "off")
  if(KRAMA_ENABLE_MPI)
    set(krama_mpi "${MPI_CXX_VERSION} (${MPIEXEC_EXECUTABLE})")
  endif()
  message(STATUS "Krama ${PROJECT_VERSION}: Kokkos ${Kokkos_VERSION} (${Kokkos_DEVICES}), "
    "MPI ${krama_mpi}, oneDNN ${KRAMA_HAS_ONEDNN}, OpenBLAS ${KRAMA_HAS_OPENBLAS}, "
    "cuBLAS ${KRAMA_HAS_CUBLAS}, hipBLAS ${KRAMA_HAS_HIPBLAS}, NCCL ${KRAMA_HAS_NCCL}, "
    "RCCL ${KRAMA_HAS_RCCL}")
endif()
