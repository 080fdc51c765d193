#include <algorithm>
#include <numeric>

#include "plan.h"

namespace vmkit::onednn {

namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t Elements(const Dims& dims) { return Size(Shape(dims.begin(), dims.end())); }

}  // namespace

Builder::Builder(const Graph& graph, const std::vector<DLTensor*>& tensors,
                 const std::vector<Optional<Tensor>>& constants, PackedCache* cache)
    : graph_(graph), tensors_(tensors), constants_(constants), cache_(cache), slots_(graph.value_count) {
  for (size_t i = 0; i < graph.arguments.size(); ++i) {
    Desc desc = PlainDesc(ShapeOf(tensors[i]));
    slots_[graph.arguments[i]] = {desc, NewBuffer(Place::kArgument, desc.get_size(), static_cast<int64_t>(i))};
  }
  FindLastUses();
}

// A value is needed until the last node that takes it, or a view of it, and one that is returned for ever.
void Builder::FindLastUses() {
  last_use_.assign(graph_.value_count, -1);
  for (int64_t value : graph_.outputs) last_use_[value] = static_cast<int64_t>(graph_.nodes.size());
  for (int64_t i = static_cast<int64_t>(graph_.nodes.size()) - 1; i >= 0; --i) {
    const Node& node = graph_.nodes[i];
    int64_t until = IsView(node) ? std::max(i, last_use_[node.outputs[0]]) : i;
    for (int64_t value : node.inputs) last_use_[value] = std::max(last_use_[value], until);
    for (const After& after : node.after) {
      if (after.operand >= 0) last_use_[after.operand] = std::max(last_use_[after.operand], i);
    }
  }
}

std::shared_ptr<Plan> Builder::Build() {
  for (const Node& node : graph_.nodes) {
    Compute(this, node);
    ++current_;
  }
  WriteResults();
  size_t bytes = PlaceTemporaries();
  return std::make_shared<Plan>(std::move(steps_), std::move(buffers_), bytes);
}

const Slot& Builder::Get(int64_t value) const {
  if (slots_[value].buffer < 0) TVM_FFI_THROW(ValueError) << "onednn: value " << value << " is used before it is made";
  return slots_[value];
}

void Builder::Set(int64_t value, const Slot& slot) { slots_[value] = slot; }

int Builder::NewBuffer(Place place, size_t bytes, int64_t index) {
  int number = static_cast<int>(buffers_.size());
  buffers_.push_back({place, bytes, index, number, nullptr});
  return number;
}

int Builder::Root(int buffer) const { return buffers_[buffer].root; }

Slot Builder::New(const Desc& desc) { return {desc, NewBuffer(Place::kTemporary, desc.get_size(), -1)}; }

Slot Builder::Over(const Slot& slot, const Desc& desc) {
  Slot made = New(desc);
  buffers_[made.buffer].root = Root(slot.buffer);
  return made;
}

bool Builder::IsConstant(const Slot& slot) const {
  const Buffer& buffer = buffers_[slot.buffer];
  return buffer.place == Place::kArgument && constants_[buffer.index].has_value();
}

bool Builder::MayOverwrite(int64_t value) const {
  if (last_use_[value] != current_ || buffers_[Root(Get(value).buffer)].place != Place::kTemporary) return false;
  // Nothing else that is still needed may lie in the same memory: a value of which this one is a view.
  for (int64_t other = 0; other < graph_.value_count; ++other) {
    bool shares = other != value && slots_[other].buffer >= 0 && Root(slots_[other].buffer) == Root(slots_[value].buffer);
    if (shares && last_use_[other] > current_) return false;
  }
  return true;
}

Slot Builder::As(const Slot& slot, const Desc& desc) {
  if (slot.desc == desc) return slot;
  if (IsConstant(slot)) return Pack(slot, desc);
  for (const auto& [buffer, from, made] : reordered_) {
    if (buffer == slot.buffer && from == slot.desc && made.desc == desc) return made;
  }
  Slot made = New(desc);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc reorder(Cpu(), slot.desc, Cpu(), desc, attr);
  Emit(dnnl::reorder(reorder), reorder, {{DNNL_ARG_FROM, slot}, {DNNL_ARG_TO, made}});
  reordered_.emplace_back(slot.buffer, slot.desc, made);
  return made;
}

Slot Builder::Pack(const Slot& slot, const Desc& desc) {
  int64_t argument = buffers_[slot.buffer].index;
  const Tensor& source = *constants_[argument];
  std::shared_ptr<Packed> packed;
  for (const std::weak_ptr<Packed>& each : *cache_) {
    std::shared_ptr<Packed> found = each.lock();
    bool is_it = found && found->argument == argument && found->source.same_as(source) && found->desc == desc;
    if (is_it) packed = found;
  }
  if (!packed) {
    packed = std::make_shared<Packed>(Packed{argument, source, desc, memory(desc, Cpu())});
    memory from(slot.desc, Cpu(), DataOf<char>(tensors_[argument]));
    dnnl::stream stream(Cpu());
    dnnl::reorder(from, packed->data).execute(stream, from, packed->data);
    stream.wait();
    cache_->erase(std::remove_if(cache_->begin(), cache_->end(), [](const auto& each) { return each.expired(); }),
                  cache_->end());
    cache_->push_back(packed);
  }
  int number = NewBuffer(Place::kPacked, 0, -1);
  buffers_[number].packed = packed;
  return {desc, number};
}

Slot Builder::Plain(const Slot& slot) { return As(slot, PlainDesc(slot.desc.get_dims())); }

Slot Builder::Reshaped(const Slot& slot, const Dims& dims) {
  if (slot.desc.get_dims() == dims) return slot;
  if (Elements(slot.desc.get_dims()) != Elements(dims)) {
    TVM_FFI_THROW(ValueError) << "onednn: a tensor of " << Elements(slot.desc.get_dims())
                              << " elements cannot have a shape of " << Elements(dims);
  }
  if (Elements(dims) == 0) return {PlainDesc(dims), slot.buffer};
  Desc seen = slot.desc.reshape(dims, true);
  if (seen.get(true) == nullptr) return {PlainDesc(dims), Plain(slot).buffer};
  return {seen, slot.buffer};
}

void Builder::Emit(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
                   std::vector<std::pair<int, Slot>> arguments) {
  Desc scratchpad = desc.scratchpad_desc();
  if (scratchpad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, New(scratchpad));
  steps_.push_back({primitive, std::move(arguments)});
}

// Have results written where the caller wants them, by the primitive that makes them where that is possible.
void Builder::WriteResults() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Slot& slot = Get(graph_.outputs[i]);
    Dims shape = ShapeOf(tensors_[graph_.arguments.size() + i]);
    Desc wanted = PlainDesc(shape);
    if (slot.desc.get_dims() != wanted.get_dims()) {
      TVM_FFI_THROW(ValueError) << "onednn: result " << i << " has another shape";
    }
    Buffer& root = buffers_[Root(slot.buffer)];
    if (slot.desc == wanted && root.place == Place::kTemporary && root.bytes == wanted.get_size()) {
      root.place = Place::kResult;
      root.index = static_cast<int64_t>(i);
      continue;
    }
    Slot result{wanted, NewBuffer(Place::kResult, wanted.get_size(), static_cast<int64_t>(i))};
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::reorder::primitive_desc reorder(Cpu(), slot.desc, Cpu(), wanted, attr);
    Emit(dnnl::reorder(reorder), reorder, {{DNNL_ARG_FROM, slot}, {DNNL_ARG_TO, result}});
  }
}

// Give what is temporary offsets in an arena, the largest first, so that no two that live at the same time overlap.
size_t Builder::PlaceTemporaries() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (const auto& [name, slot] : steps_[i].arguments) {
      Buffer& root = buffers_[Root(slot.buffer)];
      if (root.first < 0) root.first = static_cast<int>(i);
      root.last = static_cast<int>(i);
      root.bytes = std::max(root.bytes, buffers_[slot.buffer].bytes);
    }
  }
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(buffers_.size()); ++i) {
    if (buffers_[i].place == Place::kTemporary && buffers_[i].root == i && buffers_[i].first >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return buffers_[a].bytes > buffers_[b].bytes; });
  size_t total = 0;
  std::vector<const Buffer*> placed;  // by offset
  for (int number : order) {
    Buffer& own = buffers_[number];
    size_t offset = 0;
    for (const Buffer* other : placed) {
      bool overlaps = other->first <= own.last && own.first <= other->last;
      if (!overlaps) continue;
      if (offset + Aligned(own.bytes) <= other->offset) break;
      offset = std::max(offset, other->offset + Aligned(other->bytes));
    }
    own.offset = offset;
    total = std::max(total, offset + Aligned(own.bytes));
    auto place = [&](const Buffer* a, const Buffer* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &own, place), &own);
  }
  return total;
}

}  // namespace vmkit::onednn
