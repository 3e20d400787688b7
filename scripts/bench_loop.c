/* The gathers of bench.py as plain loops: clamp the index, copy the row. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The loops are written once; where the size is a constant, memcpy is one load and one store. */
#define LOOP static inline __attribute__((always_inline)) void

static size_t clamped(size_t index, size_t limit) { return index < limit ? index : limit - 1; }

LOOP copy_rows(const char *data, const uint32_t *index, char *out, size_t batches, size_t repeats,
               size_t limit, size_t count, size_t size) {
    for (size_t batch = 0; batch < batches; batch++, index += count)
        for (size_t repeat = 0; repeat < repeats; repeat++, data += limit * size)
            for (size_t i = 0; i < count; i++, out += size)
                memcpy(out, data + clamped(index[i], limit) * size, size);
}

LOOP copy_pairs(const char *data, const uint32_t *index, char *out, size_t height, size_t width,
                size_t count, size_t size) {
    for (size_t i = 0; i < count; i++, index += 2, out += size) {
        size_t row = clamped(index[0], height) * width + clamped(index[1], width);
        memcpy(out, data + row * size, size);
    }
}

/* out[batch][repeat][i] = data[batch][repeat][index[batch][i]], in rows of so many bytes. */
void gather(const char *data, const uint32_t *index, char *out, size_t batches, size_t repeats,
            size_t limit, size_t count, size_t size) {
    switch (size) {
    case 1: copy_rows(data, index, out, batches, repeats, limit, count, 1); break;
    case 2: copy_rows(data, index, out, batches, repeats, limit, count, 2); break;
    case 4: copy_rows(data, index, out, batches, repeats, limit, count, 4); break;
    case 8: copy_rows(data, index, out, batches, repeats, limit, count, 8); break;
    default: copy_rows(data, index, out, batches, repeats, limit, count, size);
    }
}

/* out[i] = data[index[i][0]][index[i][1]], in rows of so many bytes. */
void gather_pairs(const char *data, const uint32_t *index, char *out, size_t height, size_t width,
                  size_t count, size_t size) {
    switch (size) {
    case 1: copy_pairs(data, index, out, height, width, count, 1); break;
    case 2: copy_pairs(data, index, out, height, width, count, 2); break;
    case 4: copy_pairs(data, index, out, height, width, count, 4); break;
    case 8: copy_pairs(data, index, out, height, width, count, 8); break;
    default: copy_pairs(data, index, out, height, width, count, size);
    }
}
