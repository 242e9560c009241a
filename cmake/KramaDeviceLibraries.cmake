# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Libraries of the devices' vendors. They are looked for only where the Kokkos in use computes on that
# vendor's devices. Sets KRAMA_HAS_CUBLAS, KRAMA_HAS_HIPBLAS, KRAMA_HAS_NCCL and
# KRAMA_HAS_RCCL, and appends the targets to krama_libraries.

# krama_kokkos_has(RESULT BACKEND): whether Kokkos, a package or a part of the same project, has it.
function(krama_kokkos_has result backend)
  if("${backend}" IN_LIST Kokkos_DEVICES OR Kokkos_ENABLE_${backend})
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

krama_kokkos_has(krama_cuda CUDA)
krama_kokkos_has(krama_hip HIP)

set(KRAMA_HAS_CUBLAS OFF)
if(KRAMA_ENABLE_CUBLAS AND krama_cuda)
  if(NOT TARGET CUDA::cublasLt)
    find_package(CUDAToolkit QUIET GLOBAL)
  endif()
  if(TARGET CUDA::cublas AND TARGET CUDA::cublasLt)
    set(KRAMA_HAS_CUBLAS ON)
    list(APPEND krama_libraries CUDA::cublas CUDA::cublasLt)
  endif()
endif()

set(KRAMA_HAS_HIPBLAS OFF)
if(KRAMA_ENABLE_HIPBLAS AND krama_hip)
  if(NOT TARGET roc::hipblas)
    find_package(hipblas QUIET CONFIG GLOBAL HINTS "$ENV{ROCM_PATH}" /opt/rocm)
  endif()
  if(TARGET roc::hipblas)
    set(KRAMA_HAS_HIPBLAS ON)
    list(APPEND krama_libraries roc::hipblas)
  endif()
endif()

# krama_find_ccl(NCCL|RCCL BACKEND HEADER LIBRARY PLACES...): header and library, for neither brings a
# CMake package everywhere; as target krama_nccl or krama_rccl. The ranks find each other over MPI.
macro(krama_find_ccl name backend header library)
  set(KRAMA_HAS_${name} OFF)
  if(KRAMA_ENABLE_${name} AND KRAMA_ENABLE_MPI AND ${backend})
    find_path(KRAMA_${name}_INCLUDE ${header} HINTS ${ARGN} PATH_SUFFIXES include)
    find_library(KRAMA_${name}_LIBRARY ${library} HINTS ${ARGN} PATH_SUFFIXES lib lib64)
    mark_as_advanced(KRAMA_${name}_INCLUDE KRAMA_${name}_LIBRARY)
    if(KRAMA_${name}_INCLUDE AND KRAMA_${name}_LIBRARY)
      set(KRAMA_HAS_${name} ON)
      list(APPEND krama_libraries krama_${library})
      if(NOT TARGET krama_${library})
        add_library(krama_${library} INTERFACE)
        add_library(krama::krama_${library} ALIAS krama_${library})
        target_include_directories(krama_${library} SYSTEM INTERFACE "${KRAMA_${name}_INCLUDE}")
        target_link_libraries(krama_${library} INTERFACE "${KRAMA_${name}_LIBRARY}")
      endif()
    endif()
  endif()
endmacro()

krama_find_ccl(NCCL krama_cuda nccl.h nccl "$ENV{NCCL_ROOT}" "$ENV{CUDA_HOME}"
  "${CUDAToolkit_LIBRARY_ROOT}" /usr/local/cuda)
krama_find_ccl(RCCL krama_hip rccl/rccl.h rccl "$ENV{ROCM_PATH}" /opt/rocm)
