// Runs the blocks of a kernel on the processor. Each thread of a block is a coroutine with a stack of its own; it runs
// until it waits for others. Arrays, stacks and shared memory lie between memory that nobody may touch.
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN extern "C" __attribute__((visibility("default")))

struct Index {
    unsigned x, y, z;
};
SHOWN Index threadIdx, blockIdx, blockDim, gridDim;
Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

typedef long long Word;
typedef void Kernel(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
typedef void Combine(void** lanes, unsigned present);

constexpr int MOST = 1024, WARP = 32;
constexpr size_t STACK = 64 << 10, SHARED = 256 << 10, ALIGNED = 256, FENCE = 4 << 20;
constexpr int PATIENCE = 10000;  // rounds in which all threads only ask again
const char* const DIFFERENT_BLOCKS = "(blocks run one after the other, so none may wait for a later one)";

enum State { DONE, RUNS, AT_BARRIER, IN_GROUP, AT_NAMED };

struct Thread {
    void* stack_pointer;
    State state;
    bool asked;  // it only looked whether something has happened
    int line;    // at which it waits
    int group;   // threads that meet: a warp, or several
    unsigned mask;
    Combine* combine;
    void* argument;
    int name;  // of a named barrier
};

Thread threads[MOST];
int count, live, current;
unsigned living[MOST / WARP], waiting[MOST / WARP];  // bits of the lanes; waiting: in a group
int at_barrier, barrier_sum, barrier_result;
void* main_stack;
Kernel* kernel;
Word argument[16];
char* shared_memory;
char said[1000];
bool failed;
uintptr_t fault_address;
char* stacks;

size_t page() {
    static const size_t size = sysconf(_SC_PAGESIZE);
    return size;
}

size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// Memory between two ranges that fault.
char* fenced(size_t size) {
    const size_t all = size + 2 * FENCE;
    void* out = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out == MAP_FAILED) return nullptr;
    char* inner = static_cast<char*>(out) + FENCE;
    if (mprotect(inner, size, PROT_READ | PROT_WRITE)) {
        munmap(out, all);
        return nullptr;
    }
    return inner;
}

}  // namespace

// ---- coroutines -----------------------------------------------------------------------------------------------------

// Saves the registers that a function must keep on the stack, and takes them from the other one.
extern "C" void on_host_switch(void** save, void* to) asm("on_host_switch");
#if defined(__x86_64__)
constexpr int SAVED = 8;  // words: six registers, where to go on, and one that aligns
asm(R"(
.text
.globl on_host_switch
on_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
)");
constexpr int GO_ON = 6;
#elif defined(__aarch64__)
constexpr int SAVED = 20;
asm(R"(
.text
.globl on_host_switch
on_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
constexpr int GO_ON = 11;
#else
#error "on_host_switch is written for x86-64 and ARM64"
#endif

namespace {

int order[MOST], position;  // of the threads in this round
bool ran, worked;

// The next thread of this round, if there is one.
Thread* next_thread() {
    while (++position < count) {
        Thread& next = threads[order[position]];
        if (next.state != RUNS) continue;
        current = order[position];
        threadIdx.x = current;
        return &next;
    }
    return nullptr;
}

// Lets the others run, until it is this thread's turn in another round.
void yield() {
    Thread& me = threads[current];
    ran = true;
    worked |= !me.asked;
    me.asked = false;
    Thread* next = next_thread();
    on_host_switch(&me.stack_pointer, next ? next->stack_pointer : main_stack);
}

[[noreturn]] void give_up() {
    failed = true;
    on_host_switch(&threads[current].stack_pointer, main_stack);
    __builtin_unreachable();
}

void release_barrier() {
    for (int t = 0; t < count; ++t)
        if (threads[t].state == AT_BARRIER) {
            if (threads[t].line != threads[current].line && threads[current].state == AT_BARRIER) {
                snprintf(said, sizeof said, "threads %d and %d are at __syncthreads of lines %d and %d", t, current,
                         threads[t].line, threads[current].line);
                give_up();
            }
            threads[t].state = RUNS;
        }
    barrier_result = barrier_sum;
    at_barrier = barrier_sum = 0;
}

// Whether all threads that a group waits for have come; then its function is called, and they run again.
bool group_meets(int t) {
    const Thread& me = threads[t];
    const int first = t / me.group * me.group / WARP, last = first + (me.group + WARP - 1) / WARP;
    for (int w = first; w < last; ++w)
        if (living[w] & me.mask & ~waiting[w]) return false;
    void* lanes[MOST];
    unsigned present = 0;
    for (int w = first; w < last; ++w)
        for (int lane = 0; lane < WARP; ++lane) {
            void*& out = lanes[(w - first) * WARP + lane];
            out = nullptr;
            if (!(living[w] & me.mask & 1u << lane)) continue;
            Thread& other = threads[w * WARP + lane];
            if (other.line != me.line || other.mask != me.mask || other.combine != me.combine) {
                snprintf(
                    said, sizeof said,
                    "threads %d and %d of a warp are in different collectives (lines %d and %d, masks %#x and %#x)", t,
                    w * WARP + lane, me.line, other.line, me.mask, other.mask);
                give_up();
            }
            out = other.argument;
            other.state = RUNS;
            if (w == first) present |= 1u << lane;
        }
    for (int w = first; w < last; ++w) waiting[w] &= ~me.mask;
    if (me.combine) me.combine(lanes, present);
    return true;
}

void run_thread() {
    const Word* a = argument;
    kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    Thread& me = threads[current];
    me.state = DONE;
    me.line = 0;
    --live;
    living[current / WARP] &= ~(1u << current % WARP);
    if (live && at_barrier == live) release_barrier();
    for (int t = 0; t < count; ++t)  // a group that waited for this thread only
        if (threads[t].state == IN_GROUP && t / threads[t].group == current / threads[t].group) group_meets(t);
    yield();
    __builtin_unreachable();
}

void prepare(int t) {
    // Other cache sets for every stack.
    char* top = stacks + t * (STACK + 2 * page()) + STACK + page() - 64 - t * 320 % 4096;
    void** at = reinterpret_cast<void**>(top) - SAVED;
    memset(at, 0, SAVED * sizeof(void*));
    at[GO_ON] = reinterpret_cast<void*>(run_thread);
    threads[t] = {};
    threads[t].stack_pointer = at;
    threads[t].state = RUNS;
}

bool make_stacks() {
    if (stacks) return true;
    const size_t step = STACK + 2 * page();
    void* out = mmap(nullptr, MOST * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out == MAP_FAILED) return false;
    for (int t = 0; t < MOST; ++t)
        if (mprotect(static_cast<char*>(out) + t * step + page(), STACK, PROT_READ | PROT_WRITE)) return false;
    stacks = static_cast<char*>(out);
    return true;
}

void say_who_waits() {
    int out = snprintf(said, sizeof said, "no thread can go on:");
    int shown = 0;
    for (int t = 0; t < count && shown < 8; ++t) {
        const Thread& me = threads[t];
        const bool first = t == 0 || me.state != threads[t - 1].state || me.line != threads[t - 1].line;
        if (!first) continue;
        const char* names[] = {"has returned", "asks again", "is at __syncthreads", "is in a collective",
                               "is at a barrier"};
        out += snprintf(said + out, sizeof said - out, " thread %d %s", t, names[me.state]);
        if (me.state != DONE && me.line) out += snprintf(said + out, sizeof said - out, " (line %d)", me.line);
        out += snprintf(said + out, sizeof said - out, ";");
        ++shown;
    }
    snprintf(said + out, sizeof said - out, " %s", DIFFERENT_BLOCKS);
}

// A walk through all of 0..n-1: start, then steps that have no divisor in common with n.
struct Walk {
    uint64_t n, at, step;
    Walk(uint64_t n, uint64_t seed) : n(n), at(0), step(1) {
        if (!seed || n < 2) return;
        seed = (seed ^ seed >> 29) * 0x9E3779B97F4A7C15u;
        at = (seed >> 20) % n;
        for (step = 1 + (seed >> 33) % (n - 1); divisor(step, n) != 1; ++step) continue;
    }
    static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }
    uint64_t next() {
        const uint64_t out = at;
        at = (at + step) % n;
        return out;
    }
};

void run_block(unsigned block, uint64_t seed) {
    live = count;
    at_barrier = barrier_sum = 0;
    for (int w = 0; w * WARP < count; ++w) {
        living[w] = count - w * WARP >= WARP ? ~0u : (1u << (count - w * WARP)) - 1;
        waiting[w] = 0;
    }
    for (int t = 0; t < count; ++t) prepare(t);
    blockIdx.x = block;
    Walk walk(count, seed);
    for (int i = 0; i < count; ++i) order[i] = static_cast<int>(walk.next());
    for (int idle = 0; live; idle = worked ? 0 : idle + 1) {
        ran = worked = false;
        position = -1;
        if (Thread* first = next_thread()) on_host_switch(&main_stack, first->stack_pointer);
        if (failed) return;
        if (!ran || idle > PATIENCE) {
            say_who_waits();
            failed = true;
            return;
        }
    }
}

// ---- faults ---------------------------------------------------------------------------------------------------------

void on_fault(int, siginfo_t* info, void*) {
    fault_address = reinterpret_cast<uintptr_t>(info->si_addr);
    said[0] = 0;
    give_up();
}

struct CaughtFaults {
    struct sigaction old_segv, old_bus;
    stack_t old_stack;
    CaughtFaults() {
        static char own[64 << 10];
        stack_t stack = {};
        stack.ss_sp = own;
        stack.ss_size = sizeof own;
        sigaltstack(&stack, &old_stack);
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &old_segv);
        sigaction(SIGBUS, &action, &old_bus);
    }
    ~CaughtFaults() {
        sigaction(SIGSEGV, &old_segv, nullptr);
        sigaction(SIGBUS, &old_bus, nullptr);
        sigaltstack(&old_stack, nullptr);
    }
};

}  // namespace

// ---- what kernels call ----------------------------------------------------------------------------------------------

SHOWN void on_host_fail(const char* format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(said, sizeof said, format, list);
    va_end(list);
    give_up();
}

SHOWN char* on_host_shared() { return shared_memory; }

SHOWN int on_host_barrier_all(int predicate, int line) {
    Thread& me = threads[current];
    me.state = AT_BARRIER;
    me.line = line;
    barrier_sum += predicate;
    if (++at_barrier == live)
        release_barrier();
    else
        yield();
    return barrier_result;
}

SHOWN int on_host_live() { return live; }

SHOWN void on_host_together(int group, unsigned mask, int line, Combine* combine, void* argument) {
    Thread& me = threads[current];
    if (!(mask >> current % WARP & 1)) on_host_fail("thread %d is not in the mask %#x of line %d", current, mask, line);
    me.state = IN_GROUP;
    me.line = line;
    me.group = group;
    me.mask = mask;
    me.combine = combine;
    me.argument = argument;
    waiting[current / WARP] |= 1u << current % WARP;
    if (!group_meets(current)) yield();
}

SHOWN void on_host_barrier(int name, int size, int line) {
    Thread& me = threads[current];
    me.state = AT_NAMED;
    me.name = name;
    me.line = line;
    int came = 0;
    for (int t = 0; t < count; ++t) came += threads[t].state == AT_NAMED && threads[t].name == name;
    if (came < size) return yield();
    for (int t = 0; t < count; ++t)
        if (threads[t].state == AT_NAMED && threads[t].name == name) threads[t].state = RUNS;
}

SHOWN void on_host_yield() {
    threads[current].asked = true;
    yield();
}

// ---- what the compiler calls for -fsanitize
// ---------------------------------------------------------------------------

// The data of every check begins with the place in the source.
struct Place {
    const char* file;
    unsigned line, column;
};
#define CHECK(name, text) \
    SHOWN void __ubsan_handle_##name(Place* at) { on_host_fail(text " (line %u)", at->line); }
CHECK(type_mismatch_v1, "an address is not aligned")
CHECK(out_of_bounds, "an index is outside of its array")
CHECK(shift_out_of_bounds, "a shift by too many bits")
CHECK(divrem_overflow, "an integer is divided by zero, or overflows")
CHECK(add_overflow, "a sum of integers overflows")
CHECK(sub_overflow, "a difference of integers overflows")
CHECK(mul_overflow, "a product of integers overflows")
CHECK(negate_overflow, "the negative of an integer overflows")

// ---- what Python calls ----------------------------------------------------------------------------------------------

// 0, 1 (failed: `message` says why) or 2 (touched `*address`, which is no memory).
SHOWN int on_host_launch(void* function, Word grid, Word block, Word shared, const Word* arguments, char* static_shared,
                         Word static_size, Word seed, char* message, Word room, Word* address) {
    static char* const all_shared = fenced(SHARED);
    if (!all_shared || !make_stacks()) {
        snprintf(message, room, "there is no memory for stacks");
        return 1;
    }
    kernel = reinterpret_cast<Kernel*>(function);
    memcpy(argument, arguments, sizeof argument);
    shared_memory = all_shared + SHARED - rounded_up(shared, 1024);
    count = static_cast<int>(block);
    blockDim = {static_cast<unsigned>(block), 1, 1};
    gridDim = {static_cast<unsigned>(grid), 1, 1};
    failed = false;
    fault_address = 0;
    *address = 0;
    strcpy(said, "");
    CaughtFaults caught;
    Walk walk(grid, seed);
    bool outside = false;
    for (Word i = 0; i < grid && !failed && !outside; ++i) {
        memset(all_shared, 0xCD, SHARED);
        if (static_size) memset(static_shared, 0xCD, static_size);
        run_block(static_cast<unsigned>(walk.next()), seed ? seed + i : 0);
        for (char* at = shared_memory - 1024; !failed && at < all_shared + SHARED; ++at)
            if ((at < shared_memory || at >= shared_memory + shared) && *at != '\xCD') outside = true;
    }
    if (outside && !failed) {
        snprintf(message, room, "it writes outside of the %lld bytes of dynamic shared memory", shared);
        return 1;
    }
    if (!failed) return 0;
    const char* base = reinterpret_cast<const char*>(fault_address);
    if (!said[0] && base >= stacks && base < stacks + MOST * (STACK + 2 * page()))
        snprintf(said, sizeof said, "thread %d needs more than %zu bytes of stack", current, STACK);
    if (!said[0] && base >= all_shared - FENCE && base <= all_shared + SHARED + FENCE)
        snprintf(said, sizeof said, "thread %d uses what is outside of the %lld bytes of dynamic shared memory",
                 current, shared);
    if (!said[0]) {
        *address = static_cast<Word>(fault_address);
        snprintf(message, room, "thread %d of block %u", current, blockIdx.x);
        return 2;
    }
    snprintf(message, room, "%s, in block %u", said, blockIdx.x);
    return 1;
}

// The end of an array's memory is at most 255 bytes before memory that faults; all bytes are 0xFF. Null: no room.
SHOWN void* on_host_allocate(Word size) {
    const size_t inside = rounded_up(rounded_up(size, ALIGNED), page());
    char* out = fenced(inside);
    if (!out) return nullptr;
    memset(out, 0xFF, inside);
    return out + inside - rounded_up(size, ALIGNED);
}

// 0 if something was written next to the array.
SHOWN int on_host_untouched(const void* array, Word size) {
    const unsigned char* from = static_cast<const unsigned char*>(array);
    const size_t all = rounded_up(size, ALIGNED), before = reinterpret_cast<uintptr_t>(from) % page();
    for (size_t i = size; i < all; ++i)
        if (from[i] != 0xFF) return 0;
    for (size_t i = 1; i <= before; ++i)
        if (*(from - i) != 0xFF) return 0;
    return 1;
}

SHOWN void on_host_release(void* array, Word size) {
    const size_t inside = rounded_up(rounded_up(size, ALIGNED), page());
    char* end = static_cast<char*>(array) + rounded_up(size, ALIGNED);
    munmap(end - inside - FENCE, inside + 2 * FENCE);
}
