// All operators but convolutions and products, and the table of them all.
#include <algorithm>
#include <functional>

#include "after.h"

namespace vmkit::onednn {

void Convolution(Builder* builder, const Node& node);
void Product(Builder* builder, const Node& node);

namespace {

using dnnl::algorithm;
using dnnl::normalization_flags;
using dnnl::prop_kind;

constexpr auto kInference = prop_kind::forward_inference;

Slot Permuted(const Slot& slot, const std::vector<int64_t>& axes) {
  return {onednn::Permuted(slot.desc, axes), slot.buffer};
}

void Pool(Builder* b, const Node& node) {
  std::vector<int64_t> axes = node.Ints("axes");
  Slot src = Permuted(b->Get(node.inputs[0]), axes);
  Dims in = src.desc.get_dims(), out{in[0], in[1]};
  size_t rank = in.size() - 2;
  Dims kernel(in.begin() + 2, in.end()), strides = kernel, dilation(rank, 1), before(rank, 0), behind(rank, 0);
  if (!node.Int("is_global")) {
    kernel = node.Ints("kernel"), strides = node.Ints("strides"), dilation = node.Ints("dilation");
    before = node.Ints("padding_before"), behind = node.Ints("padding_after");
  }
  for (size_t i = 0; i < rank; ++i) {
    int64_t reach = dilation[i] * (kernel[i] - 1) + 1, room = in[i + 2] + before[i] + behind[i] - reach;
    out.push_back((node.Int("ceil_mode") ? room + strides[i] - 1 : room) / strides[i] + 1);
    behind[i] = (out.back() - 1) * strides[i] + reach - in[i + 2] - before[i];
    --dilation[i];
  }
  std::string kind = node.attrs["function"].cast<std::string>();
  algorithm function = kind == "max"       ? algorithm::pooling_max
                       : kind == "average" ? algorithm::pooling_avg_exclude_padding
                                           : algorithm::pooling_avg_include_padding;
  Desc any(out, kFloat, memory::format_tag::any);
  dnnl::pooling_forward::primitive_desc desc(Cpu(), kInference, function, src.desc, any, strides, kernel, dilation,
                                             before, behind, Attributes());
  Slot dst = b->New(desc.dst_desc());
  b->Emit(dnnl::pooling_forward(desc), desc, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  b->Set(node.outputs[0], Permuted(dst, Inverse(axes)));
}

void BatchNorm(Builder* b, const Node& node) {
  std::vector<int64_t> axes = node.Ints("axes");
  Slot src = Permuted(b->Get(node.inputs[0]), axes);
  normalization_flags flags = normalization_flags::use_global_stats;
  if (node.Int("scale")) flags |= normalization_flags::use_scale;
  if (node.Int("center")) flags |= normalization_flags::use_shift;
  dnnl::primitive_attr attr = Attributes();
  dnnl::post_ops ops;
  for (const After& after : node.after) ops.append_eltwise(Function(after.op), after.alpha, after.beta);
  attr.set_post_ops(ops);
  dnnl::batch_normalization_forward::primitive_desc desc(Cpu(), kInference, src.desc, src.desc,
                                                         node.Number("epsilon"), flags, attr);
  Slot dst = b->New(desc.dst_desc());
  std::vector<std::pair<int, Slot>> arguments{{DNNL_ARG_SRC, src},
                                              {DNNL_ARG_DST, dst},
                                              {DNNL_ARG_MEAN, b->Get(node.inputs[3])},
                                              {DNNL_ARG_VARIANCE, b->Get(node.inputs[4])}};
  if (node.Int("scale")) arguments.emplace_back(DNNL_ARG_SCALE, b->Get(node.inputs[1]));
  if (node.Int("center")) arguments.emplace_back(DNNL_ARG_SHIFT, b->Get(node.inputs[2]));
  b->Emit(dnnl::batch_normalization_forward(desc), desc, arguments);
  b->Set(node.outputs[0], Permuted(dst, Inverse(axes)));
}

void LayerNorm(Builder* b, const Node& node) {
  Slot src = b->Plain(b->Get(node.inputs[0]));
  normalization_flags flags = normalization_flags::none;
  if (node.Int("scale")) flags |= normalization_flags::use_scale;
  if (node.Int("center")) flags |= normalization_flags::use_shift;
  dnnl::layer_normalization_forward::primitive_desc desc(Cpu(), kInference, src.desc, src.desc,
                                                         node.Number("epsilon"), flags, Attributes());
  Slot dst = b->New(desc.dst_desc());
  std::vector<std::pair<int, Slot>> arguments{{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
  if (node.Int("scale")) arguments.emplace_back(DNNL_ARG_SCALE, b->Get(node.inputs[1]));
  if (node.Int("center")) arguments.emplace_back(DNNL_ARG_SHIFT, b->Get(node.inputs[2]));
  b->Emit(dnnl::layer_normalization_forward(desc), desc, arguments);
  b->Set(node.outputs[0], dst);
}

void Softmax(Builder* b, const Node& node) {
  const Slot& src = b->Get(node.inputs[0]);
  algorithm function = node.Int("is_log") ? algorithm::softmax_log : algorithm::softmax_accurate;
  dnnl::softmax_forward::primitive_desc desc(Cpu(), kInference, function, src.desc, src.desc,
                                             static_cast<int>(node.Int("axis")), Attributes());
  Slot dst = b->New(desc.dst_desc());
  b->Emit(dnnl::softmax_forward(desc), desc, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  b->Set(node.outputs[0], dst);
}

void Elementwise(Builder* b, const Node& node) {
  const Slot src = b->Get(node.inputs[0]);
  dnnl::eltwise_forward::primitive_desc desc(Cpu(), kInference, Function(node.attrs["function"].cast<std::string>()),
                                             src.desc, src.desc, node.Number("alpha"), node.Number("beta"),
                                             Attributes());
  Slot dst = b->MayOverwrite(node.inputs[0]) ? b->Over(src, src.desc) : b->New(src.desc);
  b->Emit(dnnl::eltwise_forward(desc), desc, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  b->Set(node.outputs[0], dst);
}

// A slot with as many axes as another; those that it lacks come first and have one element.
Slot Ranked(Builder* b, const Slot& slot, size_t rank) {
  Dims dims = slot.desc.get_dims();
  dims.insert(dims.begin(), rank > dims.size() ? rank - dims.size() : 0, 1);
  return b->Reshaped(slot, dims);
}

Slot Combined(Builder* b, algorithm function, const Slot& left, const Slot& right) {
  Slot dst = b->New(left.desc);
  dnnl::binary::primitive_desc desc(Cpu(), function, left.desc, right.desc, dst.desc, Attributes());
  b->Emit(dnnl::binary(desc), desc, {{DNNL_ARG_SRC_0, left}, {DNNL_ARG_SRC_1, right}, {DNNL_ARG_DST, dst}});
  return dst;
}

// oneDNN broadcasts what comes second alone. Where that is not enough, what comes first is repeated into new memory:
// as a plain tensor whose axes of one element have a stride of nothing.
Slot Spread(Builder* b, const Slot& slot, const Dims& dims) {
  Slot plain = b->Plain(slot);
  Dims own = plain.desc.get_dims(), strides = plain.desc.get_strides();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (own[i] != dims[i]) strides[i] = 0;
  }
  return b->As({Desc(dims, kFloat, strides), plain.buffer}, PlainDesc(dims));
}

void Binary(Builder* b, const Node& node) {
  Slot left = b->Get(node.inputs[0]), right = b->Get(node.inputs[1]);
  size_t rank = std::max(left.desc.get_dims().size(), right.desc.get_dims().size());
  left = Ranked(b, left, rank), right = Ranked(b, right, rank);
  Dims dims = left.desc.get_dims(), others = right.desc.get_dims();
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] != others[i] && dims[i] != 1 && others[i] != 1) {
      TVM_FFI_THROW(ValueError) << "onednn: dimensions " << dims[i] << " and " << others[i] << " cannot be broadcast";
    }
    dims[i] = dims[i] == 1 ? others[i] : dims[i];
  }
  std::string function = node.attrs["function"].cast<std::string>();
  bool commutes = function != "subtract" && function != "divide";
  if (commutes && left.desc.get_dims() != dims && others == dims) std::swap(left, right);
  if (left.desc.get_dims() != dims) left = Spread(b, left, dims);
  // Two whole tensors in one layout go through memory in its order; anything else that is broadcast is dense.
  if (right.desc.get_dims() == dims) {
    right = b->As(right, left.desc);
  } else {
    right = b->Plain(right);
  }
  b->Set(node.outputs[0], Combined(b, Function(function), left, right));
}

void Concatenate(Builder* b, const Node& node) {
  std::vector<Slot> parts;
  std::vector<Desc> descs;
  std::vector<std::pair<int, Slot>> arguments;
  for (int64_t value : node.inputs) {
    const Slot& slot = b->Get(value);
    arguments.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size()), slot);
    descs.push_back(slot.desc);
  }
  dnnl::concat::primitive_desc desc(Cpu(), static_cast<int>(node.Int("axis")), descs, Attributes());
  Slot dst = b->New(desc.dst_desc());
  arguments.emplace_back(DNNL_ARG_DST, dst);
  b->Emit(dnnl::concat(desc), desc, arguments);
  b->Set(node.outputs[0], dst);
}

void Transpose(Builder* b, const Node& node) {
  b->Set(node.outputs[0], Permuted(b->Get(node.inputs[0]), node.Ints("axes")));
}

// Dimensions are numbers; -1 is what is left, and -2 - i the i-th of the input.
void Reshape(Builder* b, const Node& node) {
  const Slot src = b->Get(node.inputs[0]);
  Dims own = src.desc.get_dims(), dims = node.Ints("dims");
  int64_t rest = Size(own), open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < -1) dims[i] = own.at(static_cast<size_t>(-2 - dims[i]));
    if (dims[i] == -1) open = static_cast<int64_t>(i);
    if (dims[i] > 0) rest /= dims[i];
  }
  if (open >= 0) dims[open] = rest;
  if (dims.empty()) dims = {1};
  b->Set(node.outputs[0], b->Reshaped(src, dims));
}

}  // namespace

bool IsView(const Node& node) { return node.kind == "transpose" || node.kind == "reshape"; }

void Compute(Builder* builder, const Node& node) {
  static const std::map<std::string, std::function<void(Builder*, const Node&)>> operators = {
      {"batch_norm", BatchNorm}, {"binary", Binary},   {"concatenate", Concatenate}, {"convolution", Convolution},
      {"elementwise", Elementwise}, {"layer_norm", LayerNorm}, {"pool", Pool}, {"product", Product},
      {"reshape", Reshape},      {"softmax", Softmax}, {"transpose", Transpose},
  };
  auto found = operators.find(node.kind);
  if (found == operators.end()) TVM_FFI_THROW(ValueError) << "onednn: there is no operator " << node.kind;
  found->second(builder, node);
}

}  // namespace vmkit::onednn
