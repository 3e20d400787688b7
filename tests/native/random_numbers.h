/* Random numbers for the harnesses of hostile numbers, the same on every machine. */
#ifndef RANDOM_NUMBERS_H
#define RANDOM_NUMBERS_H

#include <stdint.h>

#define TWO_TO(exponent) ((uint64_t)1 << (exponent))

static uint64_t state;

static inline void seed(uint64_t number) {
    state = number * 2654435761u + 1;
}

static inline uint64_t draw(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static inline uint64_t below(uint64_t count) {
    return draw() % count;
}

/* A number that breaks a rule, or overflows where the rule is missing. */
static inline uint64_t hostile(void) {
    static const uint64_t edges[] = {0,          1,          2,          7,          8,         9,
                                     TWO_TO(31), TWO_TO(32), TWO_TO(33), TWO_TO(62), TWO_TO(63)};
    const uint64_t edge = edges[below(sizeof edges / sizeof *edges)];
    switch (below(4)) {
    case 0: return below(20);
    case 1: return edge - below(3); /* also 2^64 - 1 */
    case 2: return edge + below(3);
    default: return draw() >> below(64);
    }
}

/* An index that is often out of range of an axis. */
static inline uint64_t index_near(uint64_t axis_size) {
    switch (below(8)) {
    case 0: return hostile();
    case 1: return axis_size;
    case 2: return 0 - axis_size;
    case 3: return 0 - axis_size - 1;
    case 4: return axis_size ? ~below(axis_size) : 0;
    default: return axis_size ? below(axis_size) : 0;
    }
}

#endif
