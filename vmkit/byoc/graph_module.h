// Modules of JSON graphs, each the runtime of a code generator: what such runtimes have in common.
//
// A graph has numbered values; its function takes the tensors of its arguments and then of its results. What runs one
// is a class `G` with a name (`kKind`), a constructor from the graph's JSON and `Call(args, count)`.
#pragma once

#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace vmkit {

using namespace tvm::ffi;

using Shape = std::vector<int64_t>;

inline int64_t Size(const Shape& shape) {
  int64_t size = 1;
  for (int64_t dim : shape) size *= dim;
  return size;
}

inline Shape ShapeOf(const DLTensor* tensor) { return Shape(tensor->shape, tensor->shape + tensor->ndim); }

template <typename T>
T* DataOf(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

inline bool IsFloat(const DLTensor* tensor, int bits) {
  return tensor->dtype.code == kDLFloat && tensor->dtype.bits == bits && tensor->dtype.lanes == 1;
}

// The numbers in a JSON array, whatever they are.
inline std::vector<int64_t> Integers(const json::Value& value) {
  std::vector<int64_t> made;
  for (const Any& each : value.cast<json::Array>()) made.push_back(each.cast<int64_t>());
  return made;
}

// Numbers of values, each one that the graph has.
inline std::vector<int64_t> Numbers(const json::Value& value, int64_t value_count, const char* kind) {
  std::vector<int64_t> made = Integers(value);
  for (int64_t number : made) {
    if (number < 0 || number >= value_count) TVM_FFI_THROW(ValueError) << kind << ": there is no value " << number;
  }
  return made;
}

// What every graph has: how many values, which of them the function takes, which it gives.
struct Interface {
  int64_t value_count;
  std::vector<int64_t> arguments, outputs;

  Interface(const json::Object& graph, const char* kind)
      : value_count(static_cast<int64_t>(graph["values"].cast<json::Array>().size())),
        arguments(Numbers(graph["arguments"], value_count, kind)),
        outputs(Numbers(graph["outputs"], value_count, kind)) {}

  // The tensors of a call: the arguments, then the results.
  std::vector<DLTensor*> Tensors(const AnyView* args, int32_t count, const char* kind) const {
    if (static_cast<size_t>(count) != arguments.size() + outputs.size()) {
      TVM_FFI_THROW(TypeError) << kind << ": a graph of " << arguments.size() << " arguments and " << outputs.size()
                               << " results got " << count << " tensors";
    }
    std::vector<DLTensor*> tensors;
    for (int32_t i = 0; i < count; ++i) tensors.push_back(args[i].cast<DLTensor*>());
    return tensors;
  }
};

// A module with a function for each graph of a JSON object. It is saved as that text.
template <typename G>
class GraphModule : public ModuleObj {
 public:
  explicit GraphModule(const String& text) : text_(text) {
    for (const auto& [name, graph] : json::Parse(text).cast<json::Object>()) {
      graphs_[name.template cast<std::string>()] = std::make_unique<G>(graph.template cast<json::Object>());
    }
  }
  const char* kind() const final { return G::kKind; }
  int GetPropertyMask() const final { return Module::kBinarySerializable | Module::kRunnable; }
  Bytes SaveToBytes() const final { return Bytes(text_.data(), text_.size()); }
  String InspectSource(const String& format) const final { return text_; }
  Optional<Function> GetFunction(const String& name) final {
    auto found = graphs_.find(std::string(name));
    if (found == graphs_.end()) return std::nullopt;
    G* graph = found->second.get();
    // The function keeps the module, and with it the graph.
    return Function::FromPacked([self = GetRef<Module>(this), graph](const AnyView* args, int32_t count, Any* result) {
      graph->Call(args, count);
    });
  }

  static Module Create(const String& text) { return Module(make_object<GraphModule>(text)); }
  static Module LoadFromBytes(const Bytes& bytes) { return Create(String(bytes.data(), bytes.size())); }

  // Register what makes modules of the kind, and what loads them.
  static void Register() {
    std::string kind = G::kKind;
    reflection::GlobalDef()
        .def(("vmkit.byoc." + kind + ".create").c_str(), Create)
        .def(("ffi.Module.load_from_bytes." + kind).c_str(), LoadFromBytes);
  }

 private:
  String text_;
  std::unordered_map<std::string, std::unique_ptr<G>> graphs_;
};

}  // namespace vmkit
