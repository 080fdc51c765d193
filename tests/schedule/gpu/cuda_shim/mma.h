// Squares for tensor cores. Each thread of a warp has all of a square, so that none needs what another has.
#pragma once
#include "cuda_fp16.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename T, typename Layout = row_major>
struct fragment {
  T at[16][16];
};

inline void check(const void* pointer, unsigned stride, int bytes) {
  // What the hardware asks for: 32 bytes, and rows of a multiple of 16.
  if (reinterpret_cast<uintptr_t>(pointer) % 32 || stride * bytes % 16) std::abort();
}

template <typename Use, int m, int n, int k, typename T, typename Layout>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const T* from, unsigned stride) {
  check(from, stride, sizeof(T));
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c)
      f.at[r][c] = std::is_same_v<Layout, row_major> ? from[r * stride + c] : from[c * stride + r];
}

template <typename T, typename V>
void fill_fragment(fragment<accumulator, 16, 16, 16, T>& f, V value) {
  for (auto& row : f.at)
    for (auto& each : row) each = static_cast<T>(value);
}

template <typename T, typename A, typename B>
void mma_sync(fragment<accumulator, 16, 16, 16, T>& d, const A& a, const B& b,
              const fragment<accumulator, 16, 16, 16, T>& c) {
  fragment<accumulator, 16, 16, 16, T> sum = c;
  for (int r = 0; r < 16; ++r)
    for (int n = 0; n < 16; ++n)
      for (int k = 0; k < 16; ++k) sum.at[r][n] += static_cast<T>(a.at[r][k]) * static_cast<T>(b.at[k][n]);
  d = sum;
}

template <typename T>
void store_matrix_sync(T* to, const fragment<accumulator, 16, 16, 16, T>& f, unsigned stride, layout_t) {
  check(to, stride, sizeof(T));
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c) to[r * stride + c] = f.at[r][c];
}

}  // namespace nvcuda::wmma
