// A runtime for the JSON graphs of examplejson: a module of a kind of its own, which TVM saves and loads.
//
// A graph has numbered values. Its function takes the tensors of the arguments and then of the results; values between
// them get memory for as long as a call lasts, with shapes that follow from those of the arguments.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "graph_module.h"

namespace vmkit::examplejson {

namespace {

struct Node {
  std::string op;
  std::vector<int64_t> inputs;
  int64_t output;
};

struct Graph : Interface {
  static constexpr const char* kKind = "examplejson";
  std::vector<Node> nodes;

  explicit Graph(const json::Object& object);
  void Call(const AnyView* args, int32_t count) const;
};

// A dense tensor of T: one of the caller's, or memory of the call.
template <typename T>
struct Buffer {
  Shape shape;
  const T* data = nullptr;
  std::vector<T> own;
};

Shape Broadcast(const Shape& a, const Shape& b) {
  Shape made(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= made.size(); ++i) {
    int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      TVM_FFI_THROW(ValueError) << "examplejson: dimensions " << x << " and " << y << " cannot be broadcast";
    }
    made[made.size() - i] = x == 1 ? y : x;
  }
  return made;
}

// The place, in a tensor that is broadcast to `shape`, of the element `i` of that shape.
int64_t Place(const Shape& own, const Shape& shape, int64_t i) {
  int64_t place = 0, stride = 1;
  for (size_t d = 1; d <= own.size(); ++d) {
    int64_t whole = shape[shape.size() - d], dim = own[own.size() - d];
    if (dim != 1) place += (i % whole) * stride;
    i /= whole;
    stride *= dim;
  }
  return place;
}

template <typename T, typename F>
void Binary(const Buffer<T>& a, const Buffer<T>& b, Buffer<T>* out, F f) {
  out->shape = Broadcast(a.shape, b.shape);
  out->own.resize(Size(out->shape));
  for (size_t i = 0; i < out->own.size(); ++i) {
    out->own[i] = f(a.data[Place(a.shape, out->shape, i)], b.data[Place(b.shape, out->shape, i)]);
  }
}

template <typename T, typename F>
void Unary(const Buffer<T>& a, Buffer<T>* out, F f) {
  out->shape = a.shape;
  out->own.resize(Size(a.shape));
  std::transform(a.data, a.data + out->own.size(), out->own.begin(), f);
}

// The product of x [..., k] with the transpose of w [n, k].
template <typename T>
void Dense(const Buffer<T>& x, const Buffer<T>& w, Buffer<T>* out) {
  int64_t k = x.shape.back(), n = w.shape[0];
  if (w.shape.size() != 2 || w.shape[1] != k) TVM_FFI_THROW(ValueError) << "examplejson: nn.dense of other sizes";
  out->shape = x.shape;
  out->shape.back() = n;
  out->own.assign(Size(out->shape), T(0));
  int64_t rows = k == 0 ? 0 : Size(x.shape) / k;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += x.data[i * k + l] * w.data[j * k + l];
      out->own[i * n + j] = sum;
    }
  }
}

// The larger of two numbers; NaN if one of them is, as numpy has it.
template <typename T>
T Larger(T a, T b) {
  return std::isnan(a) || a > b ? a : b;
}

template <typename T>
void Compute(const std::string& op, const std::vector<const Buffer<T>*>& in, Buffer<T>* out) {
  if (op == "add") return Binary(*in[0], *in[1], out, [](T a, T b) { return a + b; });
  if (op == "subtract") return Binary(*in[0], *in[1], out, [](T a, T b) { return a - b; });
  if (op == "multiply") return Binary(*in[0], *in[1], out, [](T a, T b) { return a * b; });
  if (op == "maximum") return Binary(*in[0], *in[1], out, Larger<T>);
  if (op == "minimum") return Binary(*in[0], *in[1], out, [](T a, T b) { return -Larger<T>(-a, -b); });
  if (op == "exp") return Unary(*in[0], out, [](T a) { return std::exp(a); });
  if (op == "tanh") return Unary(*in[0], out, [](T a) { return std::tanh(a); });
  if (op == "nn.relu") return Unary(*in[0], out, [](T a) { return Larger<T>(a, 0); });
  if (op == "nn.dense") return Dense(*in[0], *in[1], out);
  TVM_FFI_THROW(ValueError) << "examplejson: there is no operator " << op;
}

template <typename T>
void Run(const Graph& graph, const std::vector<DLTensor*>& tensors) {
  std::vector<Buffer<T>> values(graph.value_count);
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    Buffer<T>& value = values[graph.arguments[i]];
    value.shape = ShapeOf(tensors[i]);
    value.data = DataOf<T>(tensors[i]);
  }
  for (const Node& node : graph.nodes) {
    std::vector<const Buffer<T>*> inputs;
    for (int64_t input : node.inputs) inputs.push_back(&values[input]);
    Buffer<T>& made = values[node.output];
    Compute<T>(node.op, inputs, &made);
    made.data = made.own.data();
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Buffer<T>& value = values[graph.outputs[i]];
    DLTensor* place = tensors[graph.arguments.size() + i];
    if (ShapeOf(place) != value.shape) TVM_FFI_THROW(ValueError) << "examplejson: result " << i << " has another shape";
    std::memcpy(DataOf<T>(place), value.data, sizeof(T) * Size(value.shape));
  }
}

void Graph::Call(const AnyView* args, int32_t count) const {
  std::vector<DLTensor*> tensors = Tensors(args, count, kKind);
  if (IsFloat(tensors.back(), 32)) return Run<float>(*this, tensors);
  if (IsFloat(tensors.back(), 64)) return Run<double>(*this, tensors);
  TVM_FFI_THROW(TypeError) << "examplejson: it computes in float32 or float64";
}

Graph::Graph(const json::Object& object) : Interface(object, kKind) {
  for (const Any& each : object["nodes"].cast<json::Array>()) {
    json::Object node = each.cast<json::Object>();
    std::vector<int64_t> results = Numbers(node["outputs"], value_count, kKind);
    if (results.size() != 1) TVM_FFI_THROW(ValueError) << "examplejson: an operator has one result";
    nodes.push_back({node["op"].cast<std::string>(), Numbers(node["inputs"], value_count, kKind), results[0]});
  }
}

TVM_FFI_STATIC_INIT_BLOCK() { GraphModule<Graph>::Register(); }

}  // namespace

}  // namespace vmkit::examplejson
