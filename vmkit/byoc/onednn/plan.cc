#include "plan.h"

#include <algorithm>

namespace vmkit::onednn {

const dnnl::engine& Cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Desc PlainDesc(const Dims& dims) {
  if (dims.empty()) return Desc({1}, kFloat, Dims{1});
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return Desc(dims, kFloat, strides);
}

Desc Permuted(const Desc& desc, const std::vector<int64_t>& axes) {
  std::vector<int> places(axes.size());  // oneDNN wants to know where each axis goes
  for (size_t i = 0; i < axes.size(); ++i) places[axes[i]] = static_cast<int>(i);
  return desc.permute_axes(places);
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& axes) {
  std::vector<int64_t> made(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) made[axes[i]] = static_cast<int64_t>(i);
  return made;
}

Graph::Graph(const json::Object& object) : Interface(object, "onednn") {
  std::vector<int64_t> constants = Integers(object["constants"]);
  for (int64_t value : arguments) {
    is_constant.push_back(std::find(constants.begin(), constants.end(), value) != constants.end());
  }
  for (const Any& each : object["nodes"].cast<json::Array>()) {
    json::Object node = each.cast<json::Object>();
    Node made{node["kind"].cast<std::string>(), Numbers(node["inputs"], value_count, "onednn"),
              Numbers(node["outputs"], value_count, "onednn"), node["attrs"].cast<json::Object>(), {}};
    for (const Any& one : node["after"].cast<json::Array>()) {
      json::Object after = one.cast<json::Object>();
      made.after.push_back({after["op"].cast<std::string>(), static_cast<float>(after["alpha"].cast<double>()),
                            static_cast<float>(after["beta"].cast<double>()), after["operand"].cast<int64_t>()});
      if (made.after.back().operand >= value_count) TVM_FFI_THROW(ValueError) << "onednn: an operand is no value";
    }
    nodes.push_back(made);
  }
}

Plan::Plan(std::vector<Step> steps, std::vector<Buffer> buffers, size_t arena_bytes)
    : stream_(Cpu()), arena_bytes_(arena_bytes) {
  for (const Step& step : steps) {
    std::vector<dnnl_exec_arg_t> made;
    for (const auto& [name, slot] : step.arguments) {
      const Buffer& own = buffers[slot.buffer];
      const Buffer& root = buffers[own.root];
      if (root.place == Place::kPacked) {
        made.push_back({name, root.packed->data.get()});
        continue;
      }
      memory one(slot.desc, Cpu(), DNNL_MEMORY_NONE);
      owned_.push_back(one);
      made.push_back({name, one.get()});
      if (root.place == Place::kTemporary) {
        temporaries_.emplace_back(one, root.offset);
      } else {
        external_.emplace_back(one, root.place, root.index);
      }
    }
    primitives_.push_back(step.primitive);
    arguments_.push_back(made);
  }
  for (const Buffer& buffer : buffers) {
    if (buffer.packed) packed_.push_back(buffer.packed);
  }
}

void Plan::Run(char* arena, const std::vector<DLTensor*>& tensors, size_t argument_count) {
  if (arena != arena_) {
    for (auto& [data, offset] : temporaries_) data.set_data_handle(arena + offset);
    arena_ = arena;
  }
  for (auto& [data, place, index] : external_) {
    data.set_data_handle(DataOf<char>(tensors[place == Place::kResult ? argument_count + index : index]));
  }
  for (size_t i = 0; i < primitives_.size(); ++i) {
    dnnl_status_t status = dnnl_primitive_execute(primitives_[i].get(), stream_.get(),
                                                  static_cast<int>(arguments_[i].size()), arguments_[i].data());
    if (status != dnnl_success) TVM_FFI_THROW(RuntimeError) << "onednn: a primitive failed with status " << status;
  }
  stream_.wait();
}

}  // namespace vmkit::onednn
