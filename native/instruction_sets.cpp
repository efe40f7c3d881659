// Chooses the kernels of the best instruction set that this machine can run.
#include <cstring>

#if defined(KV_ARM_DOT)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels.hpp"

namespace kv {

namespace plain { extern const Kernels kernels; }
namespace plain_bytes { extern const ByteKernels byte_kernels; }
#if defined(KV_ARM_DOT)
namespace plain_dot { extern const ByteKernels byte_kernels; }
#endif
#if defined(KV_X86)
namespace v2 { extern const Kernels kernels; }
namespace v3 { extern const Kernels kernels; }
namespace v4 { extern const Kernels kernels; }
namespace v2_bytes { extern const ByteKernels byte_kernels; }
namespace v3_bytes { extern const ByteKernels byte_kernels; }
namespace v4_bytes { extern const ByteKernels byte_kernels; }
namespace v3_vnni { extern const ByteKernels byte_kernels; }
namespace v4_vnni { extern const ByteKernels byte_kernels; }
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

std::vector<const ByteKernels*> available_byte_kernels(const Kernels& set) {
    std::vector<const ByteKernels*> out;
#if defined(KV_X86)
    __builtin_cpu_init();
    if (&set == &v4::kernels) {
        out.push_back(&v4_bytes::byte_kernels);
        if (__builtin_cpu_supports("avx512vnni")) out.push_back(&v4_vnni::byte_kernels);
    } else if (&set == &v3::kernels) {
        out.push_back(&v3_bytes::byte_kernels);
        if (__builtin_cpu_supports("avxvnni")) out.push_back(&v3_vnni::byte_kernels);
    } else if (&set == &v2::kernels) {
        out.push_back(&v2_bytes::byte_kernels);
    }
#endif
    if (&set == &plain::kernels) {
        out.push_back(&plain_bytes::byte_kernels);
#if defined(KV_ARM_DOT)
        if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) out.push_back(&plain_dot::byte_kernels);
#endif
    }
    return out;
}

ChosenKernels choose_kernels(const char* name) {
    const auto all = available_kernels();
    if (!name || !*name) name = all.back()->name;
    for (const Kernels* set : all) {
        const auto bytes = available_byte_kernels(*set);
        if (!std::strcmp(set->name, name)) return {set, bytes.back()};
        for (const ByteKernels* one : bytes)
            if (!std::strcmp(one->name, name)) return {set, one};
    }
    return {};
}

}  // namespace kv
