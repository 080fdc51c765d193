// float16 as the compiler of the processor has it.
#pragma once
#include "cuda.h"

using half = _Float16;
using __half = _Float16;
struct __half2 { half x, y; };
inline half __float2half_rn(float x) { return static_cast<half>(x); }
inline half __float2half(float x) { return static_cast<half>(x); }
inline float __half2float(half x) { return static_cast<float>(x); }
inline bool __hgt(half a, half b) { return a > b; }
inline bool __hlt(half a, half b) { return a < b; }
