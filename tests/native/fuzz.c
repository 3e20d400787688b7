/* Runs gathers of random numbers, most of them hostile, inside buffers of exactly the size that the
   numbers say. Built with sanitizers by scripts/sanitize.py, which see every access outside.

     fuzz COUNT SEED        one thread
     fuzz COUNT SEED 4      each gather that gather_check accepts, on 4 threads at the same time */
#include "kernel.h"
#include "random_numbers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_RUN 5000 /* elements of a buffer, on one thread */
#define MOST_PARTS 64

/* The offset of the last element along dimensions. */
static uint64_t last(const uint64_t *sizes, const uint64_t *strides, uint32_t count) {
    uint64_t offset = 0;
    for (uint32_t k = 0; k < count; k++) offset += (sizes[k] - 1) * strides[k];
    return offset;
}

static uint64_t product(const uint64_t *sizes, uint32_t count) {
    uint64_t result = 1;
    for (uint32_t k = 0; k < count; k++) result *= sizes[k];
    return result;
}

/* A gather that gather_check accepts; most sizes are below most. */
static struct gather valid(uint64_t most) {
    struct gather g = {
        .element_size = 1u << below(4),
        .index_type = (uint32_t)below(4),
        .policy = (uint32_t)below(4),
        .loop_count = 1 + (uint32_t)below(4),
        .tuple_size = 1 + (uint32_t)below(3),
        .indices_rank = 1 + (uint32_t)below(3),
        .tuple_stride = below(3),
    };
    uint64_t packed = below(4) ? 1 : 1 + below(3);
    for (uint32_t k = 0; k < GATHER_MOST_LOOPS; k++) /* so that more of them may be accepted */
        g.sizes[k] = g.axis_sizes[k] = g.indices_sizes[k] = 1;
    for (uint32_t k = g.loop_count; k--;) {
        g.sizes[k] = 1 + below(most);
        g.output_strides[k] = packed;
        packed *= g.sizes[k] + (below(8) ? 0 : below(3));
        g.data_strides[k] = below(2) ? 0 : below(8);
        g.index_strides[k] = below(2) ? 0 : below(8);
    }
    const int meets = !below(8); /* steps of two loops may lead to one element of the output */
    if (meets) g.output_strides[below(g.loop_count)] = below(9);
    if (below(2)) g.data_strides[g.loop_count - 1] = 1; /* rows */
    if (below(2)) g.index_strides[g.loop_count - 1] = below(2);
    for (uint32_t k = 0; k < g.tuple_size; k++) {
        g.axis_sizes[k] = 1 + below(below(4) ? 9 : 300);
        g.axis_strides[k] = below(12);
    }
    for (uint32_t k = 0; k < g.indices_rank; k++) {
        g.indices_sizes[k] = 1 + below(2);
        g.indices_strides[k] = below(4);
    }
    g.indices_sizes[g.indices_rank - 1] = g.tuple_size;
    if (product(g.indices_sizes, g.indices_rank) > product(g.sizes, g.loop_count) * g.tuple_size)
        g.indices_rank = 0;
    const uint64_t reach = last(g.sizes, g.index_strides, g.loop_count) +
                           (g.tuple_size - 1) * g.tuple_stride;
    const uint64_t named = last(g.indices_sizes, g.indices_strides, g.indices_rank);
    g.data_count = 1 + last(g.sizes, g.data_strides, g.loop_count) +
                   last(g.axis_sizes, g.axis_strides, g.tuple_size) + below(2) * below(3);
    g.index_count = 1 + (reach > named ? reach : named) + below(2) * below(3);
    g.output_count = 1 + last(g.sizes, g.output_strides, g.loop_count) + below(2) * below(3);
    const uint64_t elements = product(g.sizes, g.loop_count);
    if (meets && g.output_count <= elements) g.output_count = elements + 1;
    g.reachable_count = g.data_count + below(2) * below(9);
    return g;
}

/* Change one number, or some that belong together, one to three times. */
static void mutate(struct gather *g) {
    for (uint64_t times = 1 + below(3); times; times--) {
        uint64_t *lists[] = {g->sizes,           g->data_strides,    g->index_strides,
                             g->output_strides,  g->axis_sizes,      g->axis_strides,
                             g->indices_sizes,   g->indices_strides, &g->tuple_stride,
                             &g->data_count,     &g->index_count,    &g->output_count,
                             &g->reachable_count};
        uint32_t *counts[] = {&g->element_size, &g->index_type, &g->policy,
                              &g->loop_count,   &g->tuple_size, &g->indices_rank};
        const uint64_t chosen = below(23);
        if (chosen < 8) lists[chosen][below(below(4) ? 4 : 8)] = hostile();
        else if (chosen < 13) *lists[chosen] = hostile();
        else if (chosen < 21) *counts[chosen % 6] = (uint32_t)hostile();
        else if (chosen < 22) { /* one index many times, each along another axis */
            g->policy = GATHER_ERROR;
            g->indices_rank = 1;
            g->indices_sizes[0] = 1 + below(20);
            g->indices_strides[0] = 0;
        } else { /* the offset of the last element is 2^64, so 0 */
            g->tuple_size = 2;
            g->axis_sizes[0] = g->axis_strides[0] = g->axis_strides[1] = (uint64_t)1 << 32;
            g->axis_sizes[1] = 2;
        }
    }
}

struct work {
    const struct gather *gather;
    const void *data, *indices;
    void *output;
    size_t parts, first, step;
    int fine;
};

static void *work(void *argument) {
    struct work *w = argument;
    w->fine = 1;
    for (size_t part = w->first; part < w->parts; part += w->step)
        w->fine &= gather_run(w->gather, w->data, w->indices, w->output, part, w->parts) !=
                   GATHER_STOPPED;
    return NULL;
}

static void run(const struct gather *g, size_t threads) {
    const size_t index_size = g->index_type % 2 ? 8 : 4;
    unsigned char *data = malloc(g->data_count * g->element_size);
    /* At an odd address, as those of a model may be. */
    unsigned char *odd = malloc(g->index_count * index_size + 1), *indices = odd + 1;
    unsigned char *output = malloc(g->output_count * g->element_size);
    unsigned long long sum = 0;
    struct work works[8];
    pthread_t ids[8];
    int fine = 1;
    const size_t parts = gather_parts(g, 1 + below(MOST_PARTS));
    if (!data || !odd || !output) abort();
    memset(data, 1, g->data_count * g->element_size);
    for (uint64_t k = 0; k < g->index_count; k++) {
        const uint64_t value = index_near(g->axis_sizes[below(g->tuple_size)]);
        const uint32_t half = (uint32_t)value;
        memcpy(indices + k * index_size, index_size == 8 ? (void *)&value : (void *)&half,
               index_size);
    }
    gather_clear(g, output);
    for (size_t k = 0; k < threads; k++) {
        works[k] = (struct work){g, data, indices, output, parts, k, threads, 1};
        if (threads == 1) work(&works[k]);
        else if (pthread_create(&ids[k], NULL, work, &works[k])) abort();
    }
    for (size_t k = 0; k < threads; k++) {
        if (threads > 1) pthread_join(ids[k], NULL);
        fine &= works[k].fine;
    }
    if (fine) {
        for (uint64_t k = 0; k < g->output_count * g->element_size; k++) sum += output[k] > 1;
        if (sum) { /* the data is ones, so anything else was never written, or is foreign */
            fprintf(stderr, "%llu bytes of the output are not from the data\n", sum);
            abort();
        }
    } else {
        char message[300], cut[20];
        gather_first_outside(g, indices, message, sizeof message);
        gather_first_outside(g, indices, cut, sizeof cut);
        if (g->policy != GATHER_ERROR || strncmp(message, cut, sizeof cut - 1)) abort();
    }
    free(data);
    free(odd);
    free(output);
}

int main(int count, char **arguments) {
    unsigned long long wanted = strtoull(arguments[1], NULL, 10), accepted = 0, ran = 0;
    const size_t threads = count > 3 ? (size_t)atoi(arguments[3]) : 1;
    seed(strtoull(arguments[2], NULL, 10));
    for (unsigned long long k = 0; k < wanted; k++) {
        struct gather g = valid(threads > 1 ? 30 : 5);
        if (threads == 1 && below(16)) mutate(&g);
        if (gather_check(&g)) {
            if (threads == 1) continue;
            puts("a valid gather was refused");
            return 1;
        }
        accepted++;
        if (g.data_count > LARGEST_RUN || g.index_count > LARGEST_RUN ||
            g.output_count > LARGEST_RUN)
            if (threads == 1) continue;
        ran++;
        run(&g, threads);
    }
    printf("%llu descriptions, %llu accepted, %llu run\n", wanted, accepted, ran);
    return 0;
}
