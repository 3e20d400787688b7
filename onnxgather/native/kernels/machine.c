#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* declares sched_getaffinity */
#endif
#include "machine.h"

#include <stdio.h>
#include <string.h>

#if VECTORS
#include <cpuid.h>
#endif

#if defined(_WIN32)
#include <windows.h>
#else
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#endif

#ifdef __STDC_NO_ATOMICS__
#define ATOMIC volatile
#else
#define ATOMIC _Atomic
#endif

/* The last cache of a machine that does not tell its size. */
#define USUAL_CACHE_BYTES ((size_t)32 << 20)

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

size_t machine_cache_bytes(void) {
    static ATOMIC size_t known;
    size_t bytes = known;
    if (bytes) return bytes;
#if defined(_WIN32)
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION found[256];
    DWORD room = sizeof found;
    if (GetLogicalProcessorInformation(found, &room))
        for (DWORD k = 0; k < room / sizeof *found; k++)
            if (found[k].Relationship == RelationCache && found[k].Cache.Size > bytes)
                bytes = found[k].Cache.Size;
#elif defined(__APPLE__)
    size_t room = sizeof bytes;
    if (sysctlbyname("hw.l3cachesize", &bytes, &room, NULL, 0) || !bytes)
        sysctlbyname("hw.perflevel0.l2cachesize", &bytes, &room, NULL, 0);
#elif defined(__linux__)
    unsigned long kibibytes = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file && fscanf(file, "%luK", &kibibytes) == 1) bytes = kibibytes << 10;
    if (file) fclose(file);
#endif
    if (!bytes) bytes = USUAL_CACHE_BYTES;
    known = bytes;
    return bytes;
}

#if VECTORS
/* Whether the processor has AVX-512, and the system saves its registers. */
static int has_avx512(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & 0xe6) != 0xe6) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512F;
}

int machine_gathers(void) {
    static ATOMIC int known; /* 1 no, 2 yes */
    int answer = known;
    if (answer) return answer == 2;
    /* Where Linux mends gather data sampling, these loads are slow. */
    char told[4] = "";
    FILE *file = fopen("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling", "r");
    if (file && !fgets(told, sizeof told, file)) *told = 0;
    if (file) fclose(file);
    answer = has_avx512() && !strcmp(told, "Not") ? 2 : 1;
    known = answer;
    return answer == 2;
}
#else
int machine_gathers(void) {
    return 0;
}
#endif
