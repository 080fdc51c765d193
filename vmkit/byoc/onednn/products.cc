// Convolutions and products of matrices.
#include "after.h"

namespace vmkit::onednn {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

Desc AnyDesc(const Dims& dims) { return Desc(dims, kFloat, memory::format_tag::any); }

Dims LessOne(Dims dims) {
  for (int64_t& dim : dims) --dim;
  return dims;
}

}  // namespace

void Convolution(Builder* b, const Node& node) {
  std::vector<int64_t> result_axes = Inverse(node.Ints("result_axes"));
  Slot src = b->Get(node.inputs[0]), weight = b->Get(node.inputs[1]);
  src.desc = Permuted(src.desc, node.Ints("data_axes"));
  weight.desc = Permuted(weight.desc, node.Ints("weight_axes"));
  Dims in = src.desc.get_dims(), kernel = weight.desc.get_dims();
  Dims strides = node.Ints("strides"), dilation = node.Ints("dilation");
  Dims before = node.Ints("padding_before"), behind = node.Ints("padding_after");
  int64_t groups = node.Int("groups");
  Dims out{in[0], kernel[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t reach = dilation[i] * (kernel[i + 2] - 1) + 1;
    out.push_back((in[i + 2] + before[i] + behind[i] - reach) / strides[i] + 1);
  }
  if (groups > 1) {
    Dims grouped{groups, kernel[0] / groups};
    grouped.insert(grouped.end(), kernel.begin() + 1, kernel.end());
    weight = b->Reshaped(weight, grouped);
  }
  Following following(b, node, out, [&](const Slot& slot) {
    return Slot{Permuted(slot.desc, node.Ints("result_axes")), slot.buffer};
  });
  using Described = dnnl::convolution_forward::primitive_desc;
  constexpr auto kind = prop_kind::forward_inference;
  constexpr auto direct = algorithm::convolution_direct;
  Desc data = AnyDesc(in), weights = AnyDesc(weight.desc.get_dims()), made = AnyDesc(out);
  dilation = LessOne(dilation);
  Described desc = following.bias.buffer < 0
                       ? Described(Cpu(), kind, direct, data, weights, made, strides, dilation, before, behind,
                                   following.attr)
                       : Described(Cpu(), kind, direct, data, weights, following.bias.desc, made, strides, dilation,
                                   before, behind, following.attr);
  auto arguments = following.arguments;
  arguments.emplace_back(DNNL_ARG_SRC, b->As(src, desc.src_desc()));
  arguments.emplace_back(DNNL_ARG_WEIGHTS, b->As(weight, desc.weights_desc()));
  if (following.bias.buffer >= 0) arguments.emplace_back(DNNL_ARG_BIAS, following.bias);
  Slot result = following.Destination(desc.dst_desc(), arguments);
  arguments.emplace_back(DNNL_ARG_DST, result);
  b->Emit(dnnl::convolution_forward(desc), desc, arguments);
  b->Set(node.outputs[0], {Permuted(result.desc, result_axes), result.buffer});
}

namespace {

// A factor with its last two axes exchanged, if asked for, and rows or columns that are dense.
Slot Factor(Builder* b, Slot slot, bool is_transposed) {
  Dims dims = slot.desc.get_dims();
  size_t rank = dims.size();
  bool is_strided = slot.desc.get_format_kind() == memory::format_kind::blocked && slot.desc.get_inner_nblks() == 0;
  if (is_strided) {
    Dims strides = slot.desc.get_strides();
    is_strided = strides[rank - 1] == 1 || strides[rank - 2] == 1;
  }
  if (!is_strided) slot = b->Plain(slot);
  if (!is_transposed) return slot;
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[rank - 1], axes[rank - 2]);
  return {Permuted(slot.desc, axes), slot.buffer};
}

}  // namespace

// A product of stacks of matrices; one with a single matrix on the right is that of all rows on the left.
void Product(Builder* b, const Node& node) {
  Slot left = Factor(b, b->Get(node.inputs[0]), node.Int("transpose_a") != 0);
  Slot right = Factor(b, b->Get(node.inputs[1]), node.Int("transpose_b") != 0);
  Dims rows = left.desc.get_dims(), columns = right.desc.get_dims();
  Dims shape = rows;
  shape.back() = columns.back();
  if (columns.size() == 2 && rows.size() != 2) {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < rows.size(); ++i) count *= rows[i];
    left = b->Reshaped(left, {count, rows.back()});
  } else {
    for (size_t i = 0; i + 2 < shape.size(); ++i) shape[i] = std::max(rows[i], columns[i]);
  }
  Dims out = left.desc.get_dims();
  out.back() = columns.back();
  for (size_t i = 0; i + 2 < out.size(); ++i) out[i] = shape[i];
  if (left.desc.get_dims().back() != columns[columns.size() - 2]) {
    TVM_FFI_THROW(ValueError) << "onednn: " << left.desc.get_dims().back() << " columns times "
                              << columns[columns.size() - 2] << " rows";
  }
  Following following(b, node, out, [&](const Slot& slot) {
    Dims dims = slot.desc.get_dims();
    if (Size(dims) == Size(out)) return b->Reshaped(slot, out);
    Dims own(out.size(), 1);  // one row for all, or one number
    own.back() = dims.back();
    return b->Reshaped(slot, own);
  });
  Slot bias = following.bias;
  if (bias.buffer >= 0) {
    Dims own(out.size(), 1);
    own.back() = out.back();
    bias = b->Reshaped(bias, own);
  }
  using Described = dnnl::matmul::primitive_desc;
  Desc weights = b->IsConstant(right) ? AnyDesc(columns) : right.desc, made = PlainDesc(out);
  Described desc = bias.buffer < 0 ? Described(Cpu(), left.desc, weights, made, following.attr)
                                   : Described(Cpu(), left.desc, weights, bias.desc, made, following.attr);
  auto arguments = following.arguments;
  arguments.emplace_back(DNNL_ARG_SRC, left);
  arguments.emplace_back(DNNL_ARG_WEIGHTS, b->As(right, desc.weights_desc()));
  if (bias.buffer >= 0) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  Slot result = following.Destination(desc.dst_desc(), arguments);
  arguments.emplace_back(DNNL_ARG_DST, result);
  b->Emit(dnnl::matmul(desc), desc, arguments);
  b->Set(node.outputs[0], b->Reshaped(result, shape));
}

}  // namespace vmkit::onednn
