#include "after.h"

#include <algorithm>

namespace vmkit::onednn {

using dnnl::algorithm;

algorithm Function(const std::string& name) {
  static const std::map<std::string, algorithm> functions = {
      {"abs", algorithm::eltwise_abs},
      {"add", algorithm::binary_add},
      {"clip", algorithm::eltwise_clip},
      {"divide", algorithm::binary_div},
      {"exp", algorithm::eltwise_exp},
      {"gelu", algorithm::eltwise_gelu_erf},
      {"gelu_tanh", algorithm::eltwise_gelu_tanh},
      {"linear", algorithm::eltwise_linear},
      {"log", algorithm::eltwise_log},
      {"maximum", algorithm::binary_max},
      {"minimum", algorithm::binary_min},
      {"multiply", algorithm::binary_mul},
      {"relu", algorithm::eltwise_relu},
      {"sigmoid", algorithm::eltwise_logistic},
      {"sqrt", algorithm::eltwise_sqrt},
      {"subtract", algorithm::binary_sub},
      {"swish", algorithm::eltwise_swish},
      {"tanh", algorithm::eltwise_tanh},
  };
  auto found = functions.find(name);
  if (found == functions.end()) TVM_FFI_THROW(ValueError) << "onednn: there is no function " << name;
  return found->second;
}

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Following::Following(Builder* builder, const Node& node, const Dims& dims,
                     const std::function<Slot(const Slot&)>& seen)
    : attr(Attributes()), builder_(builder) {
  dnnl::post_ops ops;
  for (const After& after : node.after) {
    if (after.op == "bias") {
      const Slot& slot = builder->Get(after.operand);
      bias = builder->Reshaped(slot, {static_cast<int64_t>(slot.desc.get_size() / sizeof(float))});
    } else if (after.op == "sum") {
      summed_ = after.operand;
      operand_ = seen(builder->Get(after.operand));
      ops.append_sum();
    } else if (after.operand >= 0) {
      Slot operand = builder->Plain(seen(builder->Get(after.operand)));
      int name = DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1;
      ops.append_binary(Function(after.op), operand.desc);
      arguments.emplace_back(name, operand);
    } else {
      ops.append_eltwise(Function(after.op), after.alpha, after.beta);
    }
  }
  attr.set_post_ops(ops);
}

Slot Following::Destination(const Desc& desc, const std::vector<std::pair<int, Slot>>& others) {
  if (summed_ < 0) return builder_->New(desc);
  bool is_read = std::any_of(others.begin(), others.end(),
                             [&](const auto& each) { return builder_->Share(each.second, operand_); });
  if (!is_read && operand_.desc == desc && builder_->MayOverwrite(summed_)) return builder_->Over(operand_, desc);
  Slot made = builder_->New(desc);
  dnnl::reorder::primitive_desc copy(Cpu(), operand_.desc, Cpu(), desc, Attributes());
  builder_->Emit(dnnl::reorder(copy), copy, {{DNNL_ARG_FROM, operand_}, {DNNL_ARG_TO, made}});
  return made;
}

}  // namespace vmkit::onednn
