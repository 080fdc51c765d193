// float16 as the compiler of the processor has it.
#pragma once

#include <cmath>
#include "cuda.h"

using half = _Float16;
using __half = _Float16;
using half2 = vector_of<half, 2, 4>;
using __half2 = half2;
inline half2 make_half2(half x, half y) { return {x, y}; }
inline half __float2half_rn(float x) { return static_cast<half>(x); }
inline half __float2half(float x) { return static_cast<half>(x); }
inline half hexp(half x) { return static_cast<half>(std::exp(static_cast<float>(x))); }
inline float __half2float(half x) { return static_cast<float>(x); }
inline bool __hgt(half a, half b) { return a > b; }
inline bool __hlt(half a, half b) { return a < b; }
