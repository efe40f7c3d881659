// Chooses the kernels of the best instruction set that this machine can run.
#include <cstring>

#include "kernels.hpp"

namespace kv {

namespace plain { extern const Kernels kernels; }
#if defined(KV_X86)
namespace v2 { extern const Kernels kernels; }
namespace v3 { extern const Kernels kernels; }
namespace v4 { extern const Kernels kernels; }
#endif

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> out{&plain::kernels};
#if defined(KV_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v2")) out.push_back(&v2::kernels);
    if (__builtin_cpu_supports("x86-64-v3")) out.push_back(&v3::kernels);
    if (__builtin_cpu_supports("x86-64-v4")) out.push_back(&v4::kernels);
#endif
    return out;
}

const Kernels* choose_kernels(const char* name) {
    const auto all = available_kernels();
    if (!name || !*name) return all.back();
    for (const Kernels* set : all)
        if (!std::strcmp(set->name, name)) return set;
    return nullptr;
}

}  // namespace kv
