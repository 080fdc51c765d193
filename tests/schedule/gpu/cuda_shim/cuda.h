// What sources of CUDA need of their language, on one processor: the threads of a block take turns, each from one barrier
// to the next.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) alignas(n)
#define __shared__ static

struct dim3 { int x, y, z; };
inline dim3 blockIdx, threadIdx, blockDim;

template <typename T, int n, int bytes> struct vector_of;
template <typename T, int bytes> struct alignas(bytes) vector_of<T, 2, bytes> { T x, y; };
template <typename T, int bytes> struct alignas(bytes) vector_of<T, 4, bytes> { T x, y, z, w; };
#define VECTORS(T, name, size)                                                 \
  using name##2 = vector_of<T, 2, 2 * size>;                                   \
  using name##4 = vector_of<T, 4, (4 * size < 16 ? 4 * size : 16)>;            \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                   \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(float, float, 4)
VECTORS(int, int, 4)
VECTORS(unsigned, uint, 4)
VECTORS(unsigned short, ushort, 2)
VECTORS(long long, longlong, 8)

using std::max;
using std::min;

namespace shim {

inline ucontext_t scheduler;
inline ucontext_t* current;
inline bool is_at_barrier;
inline void (*body)();

inline void run_block(int threads) {
  static std::vector<std::vector<char>> stacks;
  while (stacks.size() < static_cast<size_t>(threads)) stacks.emplace_back(1 << 17);
  std::vector<ucontext_t> contexts(threads);
  std::vector<bool> done(threads, false);
  for (int t = 0; t < threads; ++t) {
    getcontext(&contexts[t]);
    contexts[t].uc_stack.ss_sp = stacks[t].data();
    contexts[t].uc_stack.ss_size = stacks[t].size();
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], body, 0);
  }
  // In both orders by turns, so that a barrier that is missing shows in one of them.
  bool forwards = true;
  for (int left = threads; left > 0; forwards = !forwards) {
    int waiting = 0;
    for (int n = 0; n < threads; ++n) {
      int t = forwards ? n : threads - 1 - n;
      if (done[t]) continue;
      threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
      is_at_barrier = false;
      current = &contexts[t];
      swapcontext(&scheduler, current);
      waiting += is_at_barrier;
      done[t] = !is_at_barrier;
    }
    int before = left;
    left = waiting;
    if (waiting != 0 && waiting != before) std::abort();  // some wait for others that never come
  }
}

inline void launch(dim3 grid, dim3 block, void (*kernel)()) {
  blockDim = block;
  body = kernel;
  for (int z = 0; z < grid.z; ++z)
    for (int y = 0; y < grid.y; ++y)
      for (int x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(block.x * block.y * block.z);
      }
}

}  // namespace shim

inline void __syncthreads() {
  shim::is_at_barrier = true;
  swapcontext(shim::current, &shim::scheduler);
}
