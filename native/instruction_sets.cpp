// Chooses the kernels of the best instruction set that this machine can run.
#include <cstring>

#include "kernels.hpp"

namespace kv {

#if defined(KV_X86)
namespace v2 { extern const Kernels kernels; }
namespace v3 { extern const Kernels kernels; }
namespace v4 { extern const Kernels kernels; }

std::vector<const Kernels*> available_kernels() {
    __builtin_cpu_init();
    std::vector<const Kernels*> out{&v2::kernels};
    if (__builtin_cpu_supports("x86-64-v3")) out.push_back(&v3::kernels);
    if (__builtin_cpu_supports("x86-64-v4")) out.push_back(&v4::kernels);
    return out;
}
#else
namespace plain { extern const Kernels kernels; }

std::vector<const Kernels*> available_kernels() { return {&plain::kernels}; }
#endif

const Kernels* choose_kernels(const char* name) {
    const auto all = available_kernels();
    if (!name || !*name) return all.back();
    for (const Kernels* set : all)
        if (!std::strcmp(set->name, name)) return set;
    return nullptr;
}

}  // namespace kv
