// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

// Where the bodies of functions are that depend on no template argument. Krama is header-only: a
// translation unit sees the bodies, below the declarations of the same header. An application may
// link krama::compiled instead, which compiles them once; then KRAMA_COMPILED is defined for its
// translation units, and they see the declarations alone (docs/compile_time.md).
//
// KRAMA_DEFINITIONS  1 where the bodies are seen
// KRAMA_INLINE       stands before each of them
// KRAMA_INSTANCE     an instance of a template that the compiled part holds

#if !defined(KRAMA_COMPILED)
#define KRAMA_DEFINITIONS 1
#define KRAMA_INLINE inline
#define KRAMA_INSTANCE(...) static_assert(true)
#elif defined(KRAMA_COMPILING_BODIES)
#define KRAMA_DEFINITIONS 1
#define KRAMA_INLINE
#define KRAMA_INSTANCE(...) extern template __VA_ARGS__
#elif defined(KRAMA_COMPILING_INSTANCES)
#define KRAMA_DEFINITIONS 0
#define KRAMA_INSTANCE(...) template __VA_ARGS__
#else
#define KRAMA_DEFINITIONS 0
#define KRAMA_INSTANCE(...) extern template __VA_ARGS__
#endif
