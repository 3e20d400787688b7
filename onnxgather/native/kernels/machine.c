#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* declares sched_getaffinity */
#endif
#include "machine.h"

#if VECTORS
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#endif

#if defined(_WIN32)
#include <windows.h>
#else
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif
#endif

/* An affinity mask may leave a process fewer cores than the machine has. Where there is no mask, as
   on macOS, or where it is longer than the room for it, all cores count. */
size_t machine_cores(void) {
#if defined(_WIN32)
    DWORD_PTR allowed = 0, all = 0;
    SYSTEM_INFO system;
    size_t cores = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all))
        for (; allowed; allowed &= allowed - 1) cores++;
    if (cores) return cores;
    GetSystemInfo(&system);
    return system.dwNumberOfProcessors ? system.dwNumberOfProcessors : 1;
#else
#if defined(__linux__)
    cpu_set_t allowed;
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) {
        const int counted = CPU_COUNT(&allowed);
        if (counted > 0) return (size_t)counted;
    }
#endif
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : (size_t)cores;
#endif
}

#if VECTORS
/* Whether the processor has a feature, a bit of its leaf 7, and the system saves the registers of
   the feature, which are bits of XCR0. */
static int has(unsigned feature, unsigned registers) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & registers) != registers) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & feature;
}

/* Whether loading from several places is fast: not where Linux mends gather data sampling. */
static int loads_fast(void) {
    char text[4] = "";
    FILE *file = fopen("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling", "r");
    if (file && !fgets(text, sizeof text, file)) *text = 0;
    if (file) fclose(file);
    return !strcmp(text, "Not");
}

enum vectors machine_vectors(void) {
    static _Atomic int answered; /* 0, or one more than the answer */
    int answer = answered;
    if (answer) return (enum vectors)(answer - 1);
    enum vectors vectors = NO_VECTORS;
    if (has(bit_AVX2, 0x6)) vectors = MOVES_32;
    if (vectors == MOVES_32 && has(bit_AVX512F, 0xe6) && loads_fast()) vectors = LOADS_EIGHT;
    answered = (int)vectors + 1;
    return vectors;
}
#else
enum vectors machine_vectors(void) {
    return NO_VECTORS;
}
#endif
