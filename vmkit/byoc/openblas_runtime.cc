// A runtime for graphs of products of matrices, which OpenBLAS computes.
#include <algorithm>
#include <climits>
#include <mutex>

#include "graph_module.h"

// OpenBLAS as the wheel scipy-openblas32 has it: its names begin with `scipy_`.
extern "C" {
void scipy_cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                       int lda, const float* b, int ldb, float beta, float* c, int ldc);
void scipy_cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double* a,
                       int lda, const double* b, int ldb, double beta, double* c, int ldc);
void scipy_openblas_set_num_threads(int count);
int scipy_openblas_get_num_threads(void);
}

namespace vmkit::openblas {

namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

void Gemm(bool ta, bool tb, int m, int n, int k, const float* a, int lda, const float* b, int ldb, float* c) {
  scipy_cblas_sgemm(kRowMajor, ta ? kTranspose : kNoTranspose, tb ? kTranspose : kNoTranspose, m, n, k, 1, a, lda, b,
                    ldb, 0, c, n);
}

void Gemm(bool ta, bool tb, int m, int n, int k, const double* a, int lda, const double* b, int ldb, double* c) {
  scipy_cblas_dgemm(kRowMajor, ta ? kTranspose : kNoTranspose, tb ? kTranspose : kNoTranspose, m, n, k, 1, a, lda, b,
                    ldb, 0, c, n);
}

int Int(int64_t value) {
  if (value > INT_MAX) TVM_FFI_THROW(ValueError) << "openblas: a dimension of " << value << " is too large";
  return static_cast<int>(value);
}

using ThreadLimit = int (*)();
ThreadLimit thread_limit = nullptr;

// Set how many threads OpenBLAS uses, in the whole process, to what the calling thread may use.
void SetThreads() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  int count = thread_limit == nullptr ? 0 : thread_limit();
  if (count > 0 && count != scipy_openblas_get_num_threads()) scipy_openblas_set_num_threads(count);
}

struct Node {
  std::vector<int64_t> inputs;
  int64_t output;
  bool transpose_a, transpose_b;
};

template <typename T>
struct Matrices {
  Shape shape;
  const T* data = nullptr;
  std::vector<T> own;
};

template <typename T>
void Multiply(const Node& node, const Matrices<T>& a, const Matrices<T>& b, Matrices<T>* out,
              const DLTensor* result) {
  Shape left = a.shape, right = b.shape;
  if (right.size() == 2 && left.size() > 2) left = {Size(Shape(left.begin(), left.end() - 1)), left.back()};
  size_t rank = left.size();
  int64_t rows = left[rank - 2], inner = left[rank - 1], same = right[rank - 2], columns = right[rank - 1];
  int64_t lda = inner, ldb = columns;
  if (node.transpose_a) std::swap(rows, inner);
  if (node.transpose_b) std::swap(same, columns);
  if (inner != same) TVM_FFI_THROW(ValueError) << "openblas: " << inner << " columns times " << same << " rows";
  out->shape = a.shape;
  out->shape[a.shape.size() - 1] = columns;
  if (node.transpose_a) out->shape[a.shape.size() - 2] = rows;
  for (size_t i = 0; i + 2 < rank; ++i) out->shape[i] = std::max(left[i], right[i]);
  bool is_result = result != nullptr && ShapeOf(result) == out->shape;
  if (!is_result) out->own.resize(Size(out->shape));
  T* place = is_result ? DataOf<T>(result) : out->own.data();
  out->data = place;
  int64_t count = rows * columns == 0 ? 0 : Size(out->shape) / (rows * columns);
  for (int64_t i = 0; i < count; ++i) {
    int64_t l = 0, r = 0, rest = i, left_stride = 1, right_stride = 1;
    for (size_t d = rank - 2; d-- > 0;) {
      int64_t at = rest % out->shape[d];
      rest /= out->shape[d];
      if (left[d] != 1) l += at * left_stride;
      if (right[d] != 1) r += at * right_stride;
      left_stride *= left[d], right_stride *= right[d];
    }
    T* one = place + i * rows * columns;
    if (inner == 0) {
      std::fill(one, one + rows * columns, T(0));
      continue;
    }
    Gemm(node.transpose_a, node.transpose_b, Int(rows), Int(columns), Int(inner), a.data + l * rows * inner, Int(lda),
         b.data + r * inner * columns, Int(ldb), one);
  }
}

struct Graph : Interface {
  static constexpr const char* kKind = "openblas";
  std::vector<Node> nodes;

  explicit Graph(const json::Object& object) : Interface(object, kKind) {
    for (const Any& each : object["nodes"].cast<json::Array>()) {
      json::Object node = each.cast<json::Object>();
      nodes.push_back({Numbers(node["inputs"], value_count, kKind), Numbers(node["outputs"], value_count, kKind).at(0),
                       node["transpose_a"].cast<bool>(), node["transpose_b"].cast<bool>()});
    }
  }

  template <typename T>
  void Run(const std::vector<DLTensor*>& tensors) const {
    std::vector<Matrices<T>> values(value_count);
    for (size_t i = 0; i < arguments.size(); ++i) {
      values[arguments[i]].shape = ShapeOf(tensors[i]);
      values[arguments[i]].data = DataOf<T>(tensors[i]);
    }
    for (const Node& node : nodes) {
      const DLTensor* result = nullptr;  // what this node's product goes into, if it is returned
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == node.output) result = tensors[arguments.size() + i];
      }
      Multiply(node, values[node.inputs.at(0)], values[node.inputs.at(1)], &values[node.output], result);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Matrices<T>& value = values[outputs[i]];
      DLTensor* place = tensors[arguments.size() + i];
      if (ShapeOf(place) != value.shape) TVM_FFI_THROW(ValueError) << "openblas: result " << i << " has another shape";
      if (DataOf<T>(place) != value.data) std::copy_n(value.data, Size(value.shape), DataOf<T>(place));
    }
  }

  void Call(const AnyView* args, int32_t count) const {
    std::vector<DLTensor*> tensors = Tensors(args, count, kKind);
    SetThreads();
    if (IsFloat(tensors.back(), 32)) return Run<float>(tensors);
    if (IsFloat(tensors.back(), 64)) return Run<double>(tensors);
    TVM_FFI_THROW(TypeError) << "openblas: it computes in float32 or float64";
  }
};

TVM_FFI_STATIC_INIT_BLOCK() {
  GraphModule<Graph>::Register();
  reflection::GlobalDef().def("vmkit.byoc.openblas.set_thread_limit",
                              [](int64_t address) { thread_limit = reinterpret_cast<ThreadLimit>(address); });
}

}  // namespace

}  // namespace vmkit::openblas
