# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Pinned releases of dependencies, for KRAMA_FETCH_DEPS=ON. The archives are checked against SHA256
# sums; FETCHCONTENT_SOURCE_DIR_KOKKOS (_FMT, _CATCH2, _NLOHMANN_JSON) names an unpacked one instead.
# A copy of Krama that stands on downloaded dependencies cannot be installed: they are part of the
# build that made them.
include(FetchContent)

set(krama_archive_Kokkos
  https://github.com/kokkos/kokkos/releases/download/5.0.2/kokkos-5.0.2.tar.gz
  188817bb452ca805ee8701f1c5adbbb4fb83dc8d1c50624566a18a719ba0fa5e)
set(krama_archive_fmt
  https://github.com/fmtlib/fmt/archive/refs/tags/11.2.0.tar.gz
  bc23066d87ab3168f27cef3e97d545fa63314f5c79df5ea444d41d56f962c6af)
set(krama_archive_Catch2
  https://github.com/catchorg/Catch2/archive/refs/tags/v3.8.0.tar.gz
  1ab2de20460d4641553addfdfe6acd4109d871d5531f8f519a52ea4926303087)
set(krama_archive_nlohmann_json
  https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
  42f6e95cad6ec532fd372391373363b62a14af6d771056dbfc86160e6dfff7aa)

# Where the user chose no back end of Kokkos: OpenMP if the compiler has it, else Kokkos' own choice.
function(krama_choose_kokkos_back_end)
  foreach(name IN ITEMS OPENMP THREADS SERIAL HPX CUDA HIP SYCL)
    if(DEFINED Kokkos_ENABLE_${name})
      return()
    endif()
  endforeach()
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    set(Kokkos_ENABLE_OPENMP ON CACHE BOOL "Kokkos' OpenMP back end")
  endif()
endfunction()

# krama_fetch(NAME): makes NAME's targets from its pinned release.
macro(krama_fetch name)
  list(GET krama_archive_${name} 0 krama_url)
  list(GET krama_archive_${name} 1 krama_sha256)
  message(STATUS "Krama: ${name} is not installed; taking ${krama_url}")
  if("${name}" STREQUAL "Kokkos")
    krama_choose_kokkos_back_end()
  endif()
  FetchContent_Declare(${name} URL "${krama_url}" URL_HASH SHA256=${krama_sha256}
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM)
  FetchContent_MakeAvailable(${name})
  set(KRAMA_INSTALL OFF)
endmacro()
