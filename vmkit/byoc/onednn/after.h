// What follows a convolution or a product and is computed with it: a bias, a sum, functions of single elements.
#pragma once

#include <functional>

#include "plan.h"

namespace vmkit::onednn {

dnnl::algorithm Function(const std::string& name);
dnnl::primitive_attr Attributes();

// oneDNN's post-operations for a node, whose result has the dimensions `dims` in the order of the primitive.
class Following {
 public:
  // `seen` brings an operand, in Relay's order, to the axes of the primitive.
  Following(Builder* builder, const Node& node, const Dims& dims, const std::function<Slot(const Slot&)>& seen);

  dnnl::primitive_attr attr;
  std::vector<std::pair<int, Slot>> arguments;
  Slot bias;  // with one axis; without a buffer where there is none

  // Where the primitive, which has these arguments, writes: over the operand of a sum, or into new memory.
  Slot Destination(const Desc& desc, const std::vector<std::pair<int, Slot>>& others);

 private:
  Builder* builder_;
  int64_t summed_ = -1;
  Slot operand_;
};

}  // namespace vmkit::onednn
