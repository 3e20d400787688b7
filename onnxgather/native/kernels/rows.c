/* Copies the rows of a tile from the data to the output.

   Rows come from their offsets (copy_rows), or straight from their indices where the offsets are
   used once and the rows are short (copy_fused). Rows of odd sizes are copied as two pieces, one
   from each end, which may overlap: 12 bytes are the first 8 and the last 8. What later offsets
   lead to is fetched into the caches early, as the processor cannot guess it; single elements of
   data that the caches hold are loaded eight at a time instead (fuse_eights). */
#include "machine.h"
#include "tiles.h"

#if VECTORS
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f")))
#endif

#if STREAMS
#include <emmintrin.h>
#define FETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#elif defined(__GNUC__)
#define FETCH(address) __builtin_prefetch((const void *)(address))
#else
#define FETCH(address) ((void)(address))
#endif

_Static_assert(SHORT_ROW_BYTES <= 32, "a short row is at most two pieces of 16 bytes");

/* --- Rows from their offsets ------------------------------------------------------------------ */

INLINED void copy_elements(const struct rows *at, const uint32_t *restrict offsets,
                           const size_t size) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    for (size_t j = 0; j < rows.count; j++, output += rows.step)
        memcpy(output, data + offsets[j] * size, size);
}

/* Rows of one to two pieces. */
INLINED void copy_ends(const struct rows *at, const uint32_t *restrict offsets,
                       const size_t piece) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    const size_t end = rows.bytes - piece;
    for (size_t j = 0; j < rows.count; j++, output += rows.step) {
        const char *row = data + offsets[j] * rows.size;
        FETCH(data + offsets[j + SHORT_ROWS_AHEAD] * rows.size);
        memcpy(output, row, piece);
        memcpy(output + end, row + end, piece);
    }
}

/* Rows of more than 16 bytes, in pieces of 16. */
static void copy_pieces(const struct rows *at, const uint32_t *restrict offsets) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    const size_t end = rows.bytes - 16;
    for (size_t j = 0; j < rows.count; j++, output += rows.step) {
        const char *row = data + offsets[j] * rows.size;
        const char *later = data + offsets[j + SHORT_ROWS_AHEAD] * rows.size;
        for (size_t k = 0; k < end; k += 16) {
            if (k % CACHE_LINE == 0) FETCH(later + k);
            memcpy(output + k, row + k, 16);
        }
        memcpy(output + end, row + end, 16);
    }
}

/* Copy bytes into memory without reading it into the caches first. */
static void stream(char *restrict output, const char *restrict input, size_t bytes) {
    size_t done = 0;
#if STREAMS
    for (; done + 16 <= bytes; done += 16)
        _mm_stream_si128((__m128i *)(void *)(output + done),
                         _mm_loadu_si128((const __m128i *)(const void *)(input + done)));
#endif
    if (done < bytes) memcpy(output + done, input + done, bytes - done);
}

/* Rows of at least a cache line, each line by `copy`. While a row is copied, a later row is
   fetched: one after about FETCHED_BYTES, so that it is there in time. */
INLINED void copy_lines(const struct rows *at, const uint32_t *restrict offsets, const int streams,
                        void (*const copy)(char *, const char *)) {
    const struct rows rows = *at;
    const size_t end = rows.bytes - CACHE_LINE, apart = FETCHED_BYTES / rows.bytes + 1;
    const size_t ahead = apart < ROWS_AHEAD ? apart : ROWS_AHEAD;
    for (size_t j = 0; j < rows.count; j++) {
        const char *row = rows.data + offsets[j] * rows.size;
        const char *later = rows.data + offsets[j + ahead] * rows.size;
        char *output = rows.output + j * rows.step;
        size_t k = streams ? (0 - (uintptr_t)output) % CACHE_LINE : 0;
        if (k) stream(output, row, k); /* up to where a line begins */
        FETCH(later);
        FETCH(later + rows.bytes - 1);
        for (; k <= end; k += CACHE_LINE) {
            if (k < FETCHED_BYTES) FETCH(later + k);
            copy(output + k, row + k);
        }
        if (streams) stream(output + k, row + k, rows.bytes - k);
        else copy(output + end, row + end);
    }
#if STREAMS
    if (streams) _mm_sfence(); /* so that whichever thread hears of the output sees these bytes */
#endif
}

static inline void stream_line(char *output, const char *row) {
    stream(output, row, CACHE_LINE);
}
static void stream_rows(const struct rows *rows, const uint32_t *offsets) {
    copy_lines(rows, offsets, 1, stream_line);
}

#if VECTORS
AVX512 static inline void copy_wide_line(char *output, const char *row) {
    _mm512_storeu_si512(output, _mm512_loadu_si512(row));
}
AVX512 static void copy_wide_rows(const struct rows *rows, const uint32_t *offsets) {
    copy_lines(rows, offsets, 0, copy_wide_line);
}
AVX512 static inline void stream_wide_line(char *output, const char *row) {
    _mm512_stream_si512((void *)output, _mm512_loadu_si512(row));
}
AVX512 static void stream_wide_rows(const struct rows *rows, const uint32_t *offsets) {
    copy_lines(rows, offsets, 1, stream_wide_line);
}
#endif

static void copy_long_rows(const struct rows *rows, const uint32_t *offsets) {
    const size_t bytes = rows->bytes;
    for (size_t j = 0; j < rows->count; j++) {
        const char *later = rows->data + offsets[j + 1] * rows->size;
        for (size_t k = 0; k < bytes && k < FETCHED_ROW_BYTES; k += CACHE_LINE) FETCH(later + k);
        memcpy(rows->output + j * rows->step, rows->data + offsets[j] * rows->size, bytes);
    }
}

void copy_rows(const struct rows *rows, const uint32_t *offsets) {
    const size_t bytes = rows->bytes;
#if VECTORS
    if (bytes >= WIDE_ROW_BYTES && rows->wide) {
        if (rows->streams) stream_wide_rows(rows, offsets);
        else copy_wide_rows(rows, offsets);
        return;
    }
#endif
    if (bytes >= STREAMED_ROW_BYTES && rows->streams) stream_rows(rows, offsets);
    else if (bytes >= LONG_ROW_BYTES) copy_long_rows(rows, offsets);
    else if (bytes > 32) copy_pieces(rows, offsets);
    else if (bytes == rows->size && bytes == 1) copy_elements(rows, offsets, 1);
    else if (bytes == rows->size && bytes == 2) copy_elements(rows, offsets, 2);
    else if (bytes == rows->size && bytes == 4) copy_elements(rows, offsets, 4);
    else if (bytes == rows->size) copy_elements(rows, offsets, 8);
    else if (bytes <= 4) copy_ends(rows, offsets, 2);
    else if (bytes <= 8) copy_ends(rows, offsets, 4);
    else if (bytes <= 16) copy_ends(rows, offsets, 8);
    else copy_ends(rows, offsets, 16);
}

void clear_rows(const struct rows *rows, const uint8_t *missing) {
    for (size_t j = 0; j < rows->count; j++)
        if (missing[j]) memset(rows->output + j * rows->step, 0, rows->bytes);
}

/* --- Rows straight from their indices --------------------------------------------------------- */

/* Rows `from` to `to`; inlined as one loop for each value of the constants from `type` on.
   `coordinates`: 1 or 2, of an index. `piece`: the bytes of a row where `whole`, else a row has one
   to two pieces. `checks`: whether an index out of range is told. `packed`: whether the last
   coordinate counts elements. `fetches`: whether what later indices lead to is fetched, in range or
   not, as that is a hint and reads nothing. */
INLINED uint64_t copy_range(const struct line *axes, const struct rows *at, size_t from, size_t to,
                            const int type, const int coordinates, const size_t piece,
                            const int whole, const int checks, const int packed,
                            const int fetches) {
    const struct rows rows = *at;
    const int is_signed = type >= GATHER_INT32;
    const char *indices = axes->indices;
    const size_t size = whole ? piece : rows.size, end = rows.bytes - piece;
    const uint64_t data_step = axes->data_step * size;
    const uint64_t size0 = axes[0].size, size1 = axes[coordinates - 1].size;
    const uint64_t stride1 = packed ? piece : axes[coordinates - 1].stride * size;
    const uint64_t stride0 = coordinates == 1 ? stride1 : axes[0].stride * size;
    const char *restrict data = rows.data + from * data_step;
    char *restrict output = rows.output + from * rows.bytes;
    uint64_t outside = 0, unused = 0;
    for (size_t j = from; j < to; j++) {
        const size_t index = j * (size_t)coordinates;
        const size_t later = index + rows.ahead * (size_t)coordinates;
        if (fetches) {
            uint64_t next = value_at(indices, later, type) * stride0;
            if (coordinates == 2) next += value_at(indices, later + 1, type) * stride1;
            FETCH((uintptr_t)data + next);
        }
        uint64_t *seen = checks ? &outside : &unused;
        const char *row = data + index_at(indices, index, type, is_signed, size0, seen) * stride0;
        if (coordinates == 2)
            row += index_at(indices, index + 1, type, is_signed, size1, seen) * stride1;
        memcpy(output, row, piece);
        if (!whole) memcpy(output + end, row + end, piece);
        output += whole ? piece : rows.bytes;
        if (coordinates == 1) data += data_step;
    }
    return outside;
}

/* All rows of a tile: those with later indices first, then the last ones. */
INLINED int copy_both(const struct line *axes, const struct rows *rows, const int type,
                      const int coordinates, const size_t piece, const int whole, const int checks,
                      const int packed) {
    const size_t count = rows->count;
    const size_t fetching = rows->ahead && count > rows->ahead ? count - rows->ahead : 0;
    uint64_t outside = copy_range(axes, rows, 0, fetching, type, coordinates, piece, whole, checks,
                                  packed, 1);
    outside |= copy_range(axes, rows, fetching, count, type, coordinates, piece, whole, checks,
                          packed, 0);
    return outside != 0;
}

INLINED int fuse(const struct line *axes, const struct rows *rows, int checks, const int type,
                 const int coordinates, const size_t piece, const int whole) {
    if (checks) return copy_both(axes, rows, type, coordinates, piece, whole, 1, 0);
    if (whole && axes[coordinates - 1].stride == 1)
        return copy_both(axes, rows, type, coordinates, piece, whole, 0, 1);
    return copy_both(axes, rows, type, coordinates, piece, whole, 0, 0);
}

#define FUSED(type, coordinates)                                                                   \
    static int fuse_##type##_##coordinates(const struct line *axes, const struct rows *rows,       \
                                           int checks) {                                           \
        const size_t bytes = rows->bytes;                                                          \
        if (bytes == rows->size) switch (bytes) {                                                  \
            case 1: return fuse(axes, rows, checks, GATHER_##type, coordinates, 1, 1);             \
            case 2: return fuse(axes, rows, checks, GATHER_##type, coordinates, 2, 1);             \
            case 4: return fuse(axes, rows, checks, GATHER_##type, coordinates, 4, 1);             \
            default: return fuse(axes, rows, checks, GATHER_##type, coordinates, 8, 1);            \
            }                                                                                      \
        if (bytes <= 4) return fuse(axes, rows, checks, GATHER_##type, coordinates, 2, 0);         \
        if (bytes <= 8) return fuse(axes, rows, checks, GATHER_##type, coordinates, 4, 0);         \
        if (bytes <= 16) return fuse(axes, rows, checks, GATHER_##type, coordinates, 8, 0);        \
        return fuse(axes, rows, checks, GATHER_##type, coordinates, 16, 0);                        \
    }
FUSED(UINT32, 1)
FUSED(UINT64, 1)
FUSED(INT32, 1)
FUSED(INT64, 1)
FUSED(UINT32, 2)
FUSED(UINT64, 2)
FUSED(INT32, 2)
FUSED(INT64, 2)

#if VECTORS
/* Copy eight elements from offsets that count elements. For one of 1 or 2 bytes, 4 are read, at the
   end of the data the last 4, and shifted. */
AVX512 static inline void copy_eight(void *output, const struct rows *rows, __m512i offsets) {
    if (rows->size == 8) {
        _mm512_storeu_si512(output, _mm512_i64gather_epi64(offsets, rows->data, 8));
    } else if (rows->size == 4) {
        _mm256_storeu_si256(output, _mm512_i64gather_epi32(offsets, rows->data, 4));
    } else {
        const __m512i wanted = _mm512_slli_epi64(offsets, rows->size == 2);
        const __m512i read = _mm512_min_epu64(wanted, _mm512_set1_epi64((long long)rows->left - 4));
        const __m512i bits = _mm512_slli_epi64(_mm512_sub_epi64(wanted, read), 3);
        const __m256i found = _mm256_srlv_epi32(_mm512_i64gather_epi32(read, rows->data, 1),
                                                _mm512_cvtepi64_epi32(bits));
        const __m512i wide = _mm512_castsi256_si512(found);
        if (rows->size == 1) _mm_storel_epi64(output, _mm512_cvtepi32_epi8(wide));
        else _mm_storeu_si128(output, _mm256_castsi256_si128(_mm512_cvtepi32_epi16(wide)));
    }
}

/* As copy_fused for one coordinate and single elements, eight packed indices at a time; the last
   indices, if they are fewer than eight, are left out. */
AVX512 static int fuse_eights(const struct line *axis, const struct rows *rows, uint32_t type) {
    const __m512i size = _mm512_set1_epi64((long long)axis->size);
    const __m512i last = _mm512_set1_epi64((long long)axis->size - 1);
    const __m512i stride = _mm512_set1_epi64((long long)axis->stride);
    const __m512i step = _mm512_set1_epi64((long long)axis->data_step);
    __m512i start = _mm512_mul_epu32(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), step);
    unsigned outside = 0;
    for (size_t j = 0; j + 8 <= rows->count; j += 8) {
        /* As index_at; a mask has a bit for each index. */
        const void *indices = axis->indices + j * (type % 2 ? 8 : 4);
        const __m512i value = type % 2 ? _mm512_loadu_si512(indices)
                              : type == GATHER_UINT32
                                  ? _mm512_cvtepu32_epi64(_mm256_loadu_si256(indices))
                                  : _mm512_cvtepi32_epi64(_mm256_loadu_si256(indices));
        const __mmask8 negative = type >= GATHER_INT32
                                      ? _mm512_cmplt_epi64_mask(value, _mm512_setzero_si512())
                                      : 0;
        const __m512i index = _mm512_mask_add_epi64(value, negative, value, size);
        const __mmask8 beyond = _mm512_cmpgt_epu64_mask(index, last);
        const __m512i kept = _mm512_mask_mov_epi64(
            index, beyond, _mm512_maskz_mov_epi64((__mmask8)~negative, last));
        const __m512i offsets = _mm512_add_epi64(_mm512_mul_epu32(kept, stride), start);
        void *output = rows->output + j * rows->size;
        outside |= beyond;
        start = _mm512_add_epi64(start, _mm512_slli_epi64(step, 3));
        copy_eight(output, rows, offsets);
    }
    return outside != 0;
}
#endif

int copy_fused(const struct line *axes, uint32_t coordinates, uint32_t index_type,
               const struct rows *rows, int checks) {
    static int (*const fused[2][4])(const struct line *, const struct rows *, int) = {
        {fuse_UINT32_1, fuse_UINT64_1, fuse_INT32_1, fuse_INT64_1},
        {fuse_UINT32_2, fuse_UINT64_2, fuse_INT32_2, fuse_INT64_2},
    };
#if VECTORS
    if (rows->eights) {
        const size_t done = rows->count / 8 * 8;
        struct line line = *axes;
        struct rows last = *rows;
        if (fuse_eights(axes, rows, index_type) && checks) return 1;
        line.indices += done * (index_type % 2 ? 8 : 4);
        last.data += done * axes->data_step * rows->size;
        last.output += done * rows->bytes;
        last.count -= done;
        return fused[0][index_type](&line, &last, checks);
    }
#endif
    return fused[coordinates - 1][index_type](axes, rows, checks);
}
