# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# Libraries of the devices' vendors. They are looked for only where the Kokkos in use computes on that
# vendor's devices. Sets KRAMA_HAS_CUBLAS and KRAMA_HAS_HIPBLAS.

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
  endif()
endif()

set(KRAMA_HAS_HIPBLAS OFF)
if(KRAMA_ENABLE_HIPBLAS AND krama_hip)
  if(NOT TARGET roc::hipblas)
    find_package(hipblas QUIET CONFIG GLOBAL HINTS "$ENV{ROCM_PATH}" /opt/rocm)
  endif()
  if(TARGET roc::hipblas)
    set(KRAMA_HAS_HIPBLAS ON)
  endif()
endif()
