// Modules of graphs that oneDNN runs. A function keeps a plan for each set of shapes that it was called with.
#include <omp.h>

#include <cstdlib>
#include <list>
#include <mutex>

#include "plan.h"

namespace vmkit::onednn {

namespace {

// How many plans that nobody runs a function keeps.
constexpr size_t kMostIdle = 32;

using ThreadLimit = int (*)();
ThreadLimit thread_limit = nullptr;

// Memory for what is temporary, used by one call at a time and kept for the next.
class Arenas {
 public:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  struct Arena {
    std::unique_ptr<char, Free> data;
    size_t bytes = 0;
  };

  Arena Take(size_t bytes) {
    Arena made;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        made = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (made.bytes < bytes) {
      made.data.reset(static_cast<char*>(std::aligned_alloc(64, bytes)));
      made.bytes = made.data ? bytes : 0;
      if (!made.data) TVM_FFI_THROW(MemoryError) << "onednn: there are no " << bytes << " bytes for what is temporary";
    }
    return made;
  }

  void Give(Arena arena) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(arena));
  }

 private:
  std::mutex mutex_;
  std::vector<Arena> idle_;
};

Arenas& AllArenas() {
  static Arenas arenas;
  return arenas;
}

// The number of threads of OpenMP in the calling thread, for as long as this lives.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) {
    if (count != before_) omp_set_num_threads(count);
  }
  ~Threads() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

}  // namespace

class OneDNNGraph : public Graph {
 public:
  static constexpr const char* kKind = "onednn";

  explicit OneDNNGraph(const json::Object& object) : Graph(object) {}

  void Call(const AnyView* args, int32_t count) {
    std::vector<DLTensor*> tensors = Tensors(args, count, kKind);
    int threads = thread_limit == nullptr ? omp_get_max_threads() : thread_limit();
    std::vector<int64_t> key{threads};
    for (size_t i = 0; i < tensors.size(); ++i) {
      const DLTensor* tensor = tensors[i];
      if (!IsFloat(tensor, 32)) TVM_FFI_THROW(TypeError) << "onednn: tensor " << i << " is not of float32";
      bool is_kept = i < arguments.size() && is_constant[i] && args[i].type_index() == TypeIndex::kTVMFFITensor;
      // What is packed depends on which tensor it was, and holds that one, so that its address stays its own.
      key.push_back(is_kept ? reinterpret_cast<int64_t>(tensor) : -1);
      if (is_kept) continue;
      key.insert(key.end(), tensor->shape, tensor->shape + tensor->ndim);
    }
    Threads limited(threads);
    std::shared_ptr<Plan> plan = Take(key, args, tensors);
    Arenas::Arena arena = AllArenas().Take(plan->arena_bytes());
    plan->Run(arena.data.get(), tensors, arguments.size());
    AllArenas().Give(std::move(arena));
    Give(std::move(key), std::move(plan));
  }

 private:
  using Key = std::vector<int64_t>;

  // A plan that nobody else runs: one that was kept, or a new one.
  std::shared_ptr<Plan> Take(const Key& key, const AnyView* args, const std::vector<DLTensor*>& tensors) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto each = idle_.begin(); each != idle_.end(); ++each) {
      if (each->first != key) continue;
      std::shared_ptr<Plan> found = each->second;
      idle_.erase(each);
      return found;
    }
    std::vector<Optional<Tensor>> constants(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (is_constant[i] && args[i].type_index() == TypeIndex::kTVMFFITensor) constants[i] = args[i].cast<Tensor>();
    }
    return Builder(*this, tensors, constants, &packed_).Build();
  }

  void Give(Key key, std::shared_ptr<Plan> plan) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.emplace_front(std::move(key), std::move(plan));
    if (idle_.size() > kMostIdle) idle_.pop_back();
  }

  std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<Plan>>> idle_;  // the last used first
  PackedCache packed_;
};

namespace {

String Version() {
  const dnnl::version_t* version = dnnl::version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
}

// Take the address of a function that says how many threads the calling thread's kernels may use.
void SetThreadLimit(int64_t address) { thread_limit = reinterpret_cast<ThreadLimit>(address); }

TVM_FFI_STATIC_INIT_BLOCK() {
  GraphModule<OneDNNGraph>::Register();
  reflection::GlobalDef()
      .def("vmkit.byoc.onednn.version", Version)
      .def("vmkit.byoc.onednn.set_thread_limit", SetThreadLimit);
}

}  // namespace

}  // namespace vmkit::onednn
