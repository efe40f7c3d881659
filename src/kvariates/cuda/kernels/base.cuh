// What kernels need of CUDA, and the same on a processor (ON_HOST: tests/cuda/on_host.cpp includes the kernels).
#ifndef KV_BASE
#define KV_BASE

typedef long long index_t;
typedef int label_t;
typedef unsigned long long word_t;

#ifdef ON_HOST
#define KERNEL extern "C" void
#define DEVICE static inline
#define METHOD inline
#define SHARED(T, name) T* name = reinterpret_cast<T*>(on_host_shared())
#else
#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define SHARED(T, name)                                           \
    extern __shared__ __align__(1024) unsigned char all_shared[]; \
    T* const name = reinterpret_cast<T*>(all_shared)
#endif

// Of 16 bits: IEEE half precision.
struct half_t {
    unsigned short bits;
};

DEVICE index_t thread_index() { return static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
DEVICE index_t thread_count() { return static_cast<index_t>(gridDim.x) * blockDim.x; }

#endif
