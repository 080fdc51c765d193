// From a graph, and the shapes of a call, to oneDNN's primitives and the memory between them.
//
// A value of the graph is a `Slot`: a place, and the layout of what lies there, its axes in the order of Relay. Between
// primitives a value stays in the layout that its primitive has chosen; what needs another gets a reordered copy of it.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../graph_module.h"

namespace vmkit::onednn {

using dnnl::memory;
using Desc = memory::desc;
using Dims = memory::dims;

constexpr auto kFloat = memory::data_type::f32;

// What a primitive does to its result before it is written. An operand is a value of the graph, or -1.
struct After {
  std::string op;
  float alpha, beta;
  int64_t operand;
};

struct Node {
  std::string kind;
  std::vector<int64_t> inputs, outputs;
  json::Object attrs;
  std::vector<After> after;

  std::vector<int64_t> Ints(const char* name) const { return Integers(attrs[name]); }
  int64_t Int(const char* name) const { return attrs[name].cast<int64_t>(); }
  float Number(const char* name) const { return static_cast<float>(attrs[name].cast<double>()); }
};

struct Graph : Interface {
  std::vector<Node> nodes;
  std::vector<bool> is_constant;  // by argument
  explicit Graph(const json::Object& object);
};

// A constant in the layout of the primitive that takes it. It holds the tensor that it was made from.
struct Packed {
  int64_t argument;
  Tensor source;
  Desc desc;
  memory data;
};

// All that have been packed for a function, for as long as a plan uses them.
using PackedCache = std::vector<std::weak_ptr<Packed>>;

struct Slot {
  Desc desc;
  int buffer = -1;
};

enum class Place { kTemporary, kArgument, kResult, kPacked };

struct Buffer {
  Place place;
  size_t bytes;
  int64_t index;  // of the argument, or of the result
  int root;       // the buffer whose memory this one shares, or its own number
  std::shared_ptr<Packed> packed;
  size_t offset = 0;  // of what is temporary
  int first = -1, last = -1;
};

struct Step {
  dnnl::primitive primitive;
  std::vector<std::pair<int, Slot>> arguments;
};

const dnnl::engine& Cpu();
Desc PlainDesc(const Dims& dims);
// The description with axes in another order: axis i of the result is axis `axes[i]`.
Desc Permuted(const Desc& desc, const std::vector<int64_t>& axes);
std::vector<int64_t> Inverse(const std::vector<int64_t>& axes);

// Primitives for one set of shapes. It runs one call at a time.
class Plan {
 public:
  Plan(std::vector<Step> steps, std::vector<Buffer> buffers, size_t arena_bytes);
  size_t arena_bytes() const { return arena_bytes_; }
  // Tensors are the arguments and then the results of the graph.
  void Run(char* arena, const std::vector<DLTensor*>& tensors, size_t argument_count);

 private:
  std::vector<dnnl::primitive> primitives_;
  std::vector<std::vector<dnnl_exec_arg_t>> arguments_;
  std::vector<memory> owned_;
  std::vector<std::pair<memory, size_t>> temporaries_;
  std::vector<std::tuple<memory, Place, size_t>> external_;
  std::vector<std::shared_ptr<Packed>> packed_;
  dnnl::stream stream_;
  size_t arena_bytes_;
  char* arena_ = nullptr;
};

// Makes a plan, node by node.
class Builder {
 public:
  // Constants are the tensors of those arguments that are one and the same in every call; others are not defined.
  Builder(const Graph& graph, const std::vector<DLTensor*>& tensors, const std::vector<Optional<Tensor>>& constants,
          PackedCache* cache);
  std::shared_ptr<Plan> Build();

  // The value of a number, in the layout that it has.
  const Slot& Get(int64_t value) const;
  void Set(int64_t value, const Slot& slot);
  // New memory of a layout, for as long as it is used.
  Slot New(const Desc& desc);
  // What a slot has, in another layout of the same axes. A constant is brought into it once, for all plans.
  Slot As(const Slot& slot, const Desc& desc);
  // What a slot has, with dense rows and axes in their order.
  Slot Plain(const Slot& slot);
  // A slot of `dims`, of the same elements in the order of their axes.
  Slot Reshaped(const Slot& slot, const Dims& dims);
  bool IsConstant(const Slot& slot) const;
  // Whether a primitive may overwrite a value: it is temporary, and only the node that is being built still needs it.
  bool MayOverwrite(int64_t value) const;
  // Whether two slots lie in the same memory.
  bool Share(const Slot& a, const Slot& b) const { return Root(a.buffer) == Root(b.buffer); }
  // A value of this layout that shares the memory of a slot, which is overwritten.
  Slot Over(const Slot& slot, const Desc& desc);
  // Run a primitive after those before it, with the memory that it works in.
  void Emit(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
            std::vector<std::pair<int, Slot>> arguments);

 private:
  void FindLastUses();
  void WriteResults();
  size_t PlaceTemporaries();
  int NewBuffer(Place place, size_t bytes, int64_t index);
  int Root(int buffer) const;
  Slot Pack(const Slot& slot, const Desc& desc);

  const Graph& graph_;
  const std::vector<DLTensor*>& tensors_;
  const std::vector<Optional<Tensor>>& constants_;
  PackedCache* cache_;
  std::vector<Slot> slots_;
  std::vector<int64_t> last_use_;
  int64_t current_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  std::vector<std::tuple<int, Desc, Slot>> reordered_;
};

// Add the primitives of a node to a plan.
void Compute(Builder* builder, const Node& node);
// Whether a node's result is what it takes, seen with other axes.
bool IsView(const Node& node);

}  // namespace vmkit::onednn
