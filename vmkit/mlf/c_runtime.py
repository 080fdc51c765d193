"""The names of TVM 0.14's C runtime that wrappers around an entry include, in headers of their places there.

An entry needs none of them. They are what mlonmcu's wrappers of it are compiled with where that runtime is not
installed: types of tensors, codes of errors, and memory that is taken and given back as on a stack.
"""

from __future__ import annotations

__all__ = ["FILES"]

_DLPACK = """#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stdint.h>

/* Tensors and their types, as DLPack has them; of devices there is the processor. */
typedef enum { kDLCPU = 1 } DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4 } DLDataTypeCode;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

#endif /* DLPACK_DLPACK_H_ */
"""

_API = """#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TVM_DLL extern "C"
#else
#define TVM_DLL
#endif

typedef void* TVMFunctionHandle;

/* An argument of a packed function. */
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

#endif /* TVM_RUNTIME_C_RUNTIME_API_H_ */
"""

_ERRORS = """#ifndef TVM_RUNTIME_CRT_ERROR_CODES_H_
#define TVM_RUNTIME_CRT_ERROR_CODES_H_

/* The kind of an error is in the second byte of a code, and which of its kind in the first. */
typedef enum {
  kTvmErrorNoError = 0,
  kTvmErrorPlatformCheckFailure = 0x500,
  kTvmErrorPlatformMemoryManagerInitialized = 0x501,
  kTvmErrorPlatformShutdown = 0x502,
  kTvmErrorPlatformNoMemory = 0x503,
  kTvmErrorPlatformTimerBadState = 0x504,
  kTvmErrorPlatformStackAllocBadFree = 0x505,
  kTvmErrorFunctionCallNumArguments = 0x800,
  kTvmErrorFunctionCallWrongArgType = 0x801,
  kTvmErrorFunctionCallNotImplemented = 0x802,
  kTvmErrorFunctionCallInvalidArg = 0x803
} tvm_crt_error_t;

#endif /* TVM_RUNTIME_CRT_ERROR_CODES_H_ */
"""

_STACK_HEADER = """#ifndef TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>

#include "error_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t* next_alloc; /* where the next block begins */
  uint8_t* workspace;
  size_t workspace_size; /* bytes */
} tvm_workspace_t;

/* Blocks begin at multiples of 16 bytes; they are given back in the reverse order that they were taken in. */
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* stack, uint8_t* memory, size_t size);
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* stack, int32_t nbytes, void** block);
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* stack, void* block);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_ */
"""

_STACK = """#include "tvm/runtime/crt/stack_allocator.h"

/* The bytes from a number up to the next multiple of 16. */
static size_t missing(size_t number) {
  return (16 - number % 16) % 16;
}

tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* stack, uint8_t* memory, size_t size) {
  const size_t skipped = missing((size_t)(uintptr_t)memory);
  if (skipped > size) {
    return kTvmErrorPlatformNoMemory;
  }
  stack->workspace = memory + skipped;
  stack->workspace_size = size - skipped;
  stack->next_alloc = stack->workspace;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* stack, int32_t nbytes, void** block) {
  const size_t left = stack->workspace_size - (size_t)(stack->next_alloc - stack->workspace);
  if (nbytes < 0 || (size_t)nbytes > left || missing((size_t)nbytes) > left - (size_t)nbytes) {
    return kTvmErrorPlatformNoMemory;
  }
  *block = stack->next_alloc;
  stack->next_alloc += (size_t)nbytes + missing((size_t)nbytes);
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* stack, void* block) {
  uint8_t* const start = (uint8_t*)block;
  if (start < stack->workspace || start >= stack->next_alloc || (start - stack->workspace) % 16 != 0) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  stack->next_alloc = start;
  return kTvmErrorNoError;
}
"""

FILES = {
    "runtime/include/dlpack/dlpack.h": _DLPACK,
    "runtime/include/tvm/runtime/c_runtime_api.h": _API,
    "runtime/include/tvm/runtime/crt/error_codes.h": _ERRORS,
    "runtime/include/tvm/runtime/crt/stack_allocator.h": _STACK_HEADER,
    "runtime/src/stack_allocator.c": _STACK,
}
"""The text of each file, by its place in the archive."""
