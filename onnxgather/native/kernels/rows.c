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
#define AVX2 __attribute__((target("avx2")))
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
_Static_assert((int)ELEMENTS_AHEAD <= (int)MOST_ROWS_AHEAD, "what is fetched has an offset");

/* --- Rows from their offsets ------------------------------------------------------------------ */

/* Inlined as a loop of its own for each value of the constants from `piece` on. `piece`: the bytes
   of a row where it is `whole`, else a row has one to two pieces. `fetches_next`: whether the next
   data are fetched, else later rows are. `single`: whether a row is one element; of those the
   processor itself has enough on their way. */
INLINED void copy_pieces(const struct rows *rows, const uint32_t *restrict offsets,
                         const size_t piece, const int whole, const int fetches_next,
                         const int single) {
    const size_t size = single ? piece : rows->size;
    const size_t count = rows->count, step = rows->step, end = rows->bytes - piece;
    const size_t next_step = rows->next_step;
    const char *restrict data = rows->data;
    const char *next = rows->next;
    char *restrict output = rows->output;
    size_t j = 0;
    /* A fetch for two rows, as it takes as long as the copy of one. */
    for (; fetches_next && whole && j + 2 <= count; j += 2) {
        FETCH(next);
        memcpy(output, data + offsets[j] * size, piece);
        memcpy(output + step, data + offsets[j + 1] * size, piece);
        next += 2 * next_step;
        output += 2 * step;
    }
    for (; j < count; j++) {
        const char *row = data + offsets[j] * size;
        if (fetches_next) {
            FETCH(next);
            next += next_step;
        } else if (!single) FETCH(data + offsets[j + ELEMENTS_AHEAD] * size);
        memcpy(output, row, piece);
        if (!whole) memcpy(output + end, row + end, piece);
        output += step;
    }
}

/* Rows of less than a cache line: of one piece, or of two. */
INLINED void copy_short(const struct rows *rows, const uint32_t *offsets, const size_t piece,
                        const int whole) {
    const int single = whole && rows->size == piece; /* a row is one element */
    if (single && rows->next) copy_pieces(rows, offsets, piece, 1, 1, 1);
    else if (single) copy_pieces(rows, offsets, piece, 1, 0, 1);
    else if (rows->next) copy_pieces(rows, offsets, piece, whole, 1, 0);
    else copy_pieces(rows, offsets, piece, whole, 0, 0);
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

/* Rows of at least a cache line, each line by `copy`, from where a line of the output begins. While
   a row is copied, a later row is fetched: one after about FETCHED_BYTES, so that it is there in
   time. What lies before the first line and behind the last whole line is copied with a line more,
   of which some bytes are copied twice. Not where the output passes the caches by: a line that is
   written both ways takes 10 to 30 times as long.

   No row is copied by memcpy, but for less than 16 bytes at an end: where the output lies 1 to 31
   bytes behind the data, modulo a page, that of glibc takes 11 times as long on some processors. */
INLINED void copy_lines(const struct rows *at, const uint32_t *restrict offsets, const int streams,
                        void (*const copy)(char *, const char *)) {
    const struct rows rows = *at;
    const size_t last = rows.bytes - CACHE_LINE; /* where the last line of a row may begin */
    const size_t apart = FETCHED_BYTES / rows.bytes + 1;
    const size_t ahead = apart < MOST_ROWS_AHEAD ? apart : MOST_ROWS_AHEAD;
    for (size_t j = 0; j < rows.count; j++) {
        const char *row = rows.data + offsets[j] * rows.size;
        const char *later = rows.data + offsets[j + ahead] * rows.size;
        char *output = rows.output + j * rows.step;
        size_t k = (0 - (uintptr_t)output) % CACHE_LINE;
        if (k && streams) stream(output, row, k);
        else if (k) copy(output, row);
        FETCH(later);
        FETCH(later + rows.bytes - 1);
        for (; k <= last; k += CACHE_LINE) {
            if (k < FETCHED_BYTES) FETCH(later + k);
            copy(output + k, row + k);
        }
        if (streams) stream(output + k, row + k, rows.bytes - k);
        else copy(output + last, row + last);
    }
#if STREAMS
    if (streams) _mm_sfence(); /* so that whichever thread hears of the output sees these bytes */
#endif
}

static inline void copy_line(char *output, const char *row) {
    memcpy(output, row, CACHE_LINE); /* of constant size: four moves of 16 bytes */
}
static inline void stream_line(char *output, const char *row) {
    stream(output, row, CACHE_LINE);
}
static void copy_narrow(const struct rows *rows, const uint32_t *offsets) {
    if (rows->streams) copy_lines(rows, offsets, 1, stream_line);
    else copy_lines(rows, offsets, 0, copy_line);
}

#if VECTORS
AVX2 static inline void copy_wide_line(char *output, const char *row) {
    const __m256i first = _mm256_loadu_si256((const void *)row);
    const __m256i second = _mm256_loadu_si256((const void *)(row + 32));
    _mm256_storeu_si256((void *)output, first);
    _mm256_storeu_si256((void *)(output + 32), second);
}
AVX2 static inline void stream_wide_line(char *output, const char *row) {
    const __m256i first = _mm256_loadu_si256((const void *)row);
    const __m256i second = _mm256_loadu_si256((const void *)(row + 32));
    _mm256_stream_si256((void *)output, first);
    _mm256_stream_si256((void *)(output + 32), second);
}
AVX2 static void copy_wide(const struct rows *rows, const uint32_t *offsets) {
    if (rows->streams) copy_lines(rows, offsets, 1, stream_wide_line);
    else copy_lines(rows, offsets, 0, copy_wide_line);
}
#else
static void copy_wide(const struct rows *rows, const uint32_t *offsets) {
    copy_narrow(rows, offsets);
}
#endif

void copy_rows(const struct rows *rows, const uint32_t *offsets) {
    const size_t bytes = rows->bytes;
    if (bytes >= CACHE_LINE && rows->wide) copy_wide(rows, offsets);
    else if (bytes >= CACHE_LINE) copy_narrow(rows, offsets);
    else if (bytes == 1) copy_short(rows, offsets, 1, 1);
    else if (bytes == 2) copy_short(rows, offsets, 2, 1);
    else if (bytes == 4) copy_short(rows, offsets, 4, 1);
    else if (bytes == 8) copy_short(rows, offsets, 8, 1);
    else if (bytes == 16) copy_short(rows, offsets, 16, 1);
    else if (bytes < 4) copy_short(rows, offsets, 2, 0);
    else if (bytes < 8) copy_short(rows, offsets, 4, 0);
    else if (bytes < 16) copy_short(rows, offsets, 8, 0);
    else if (bytes <= 32) copy_short(rows, offsets, 16, 0);
    else copy_short(rows, offsets, 32, 0);
}

void clear_rows(const struct rows *rows, const uint8_t *missing) {
    for (size_t j = 0; j < rows->count; j++)
        if (missing[j]) memset(rows->output + j * rows->step, 0, rows->bytes);
}

/* --- Rows straight from their indices --------------------------------------------------------- */

/* Rows `from` to `to`; inlined as one loop for each value of the constants from `type` on. Returns
   `to`, or the row where it ended early.
   `coordinates`: 1 or 2, of an index. `piece`: the bytes of a row where `whole`, else a row has one
   to two pieces. `plain`: whether it ends at an index that is negative or out of range; the
   processor guesses that none is, and goes on before it knows. `fetches`: whether what later
   indices lead to is fetched, in range or not, as that is a hint and reads nothing. */
INLINED size_t copy_range(const struct line *axes, const struct rows *rows, size_t from, size_t to,
                          uint64_t *outside, const int type, const int coordinates,
                          const size_t piece, const int whole, const int plain, const int fetches) {
    const size_t size = rows->size, bytes = whole ? piece : rows->bytes, end = bytes - piece;
    const size_t ahead = rows->ahead * (size_t)coordinates;
    const int is_signed = type >= GATHER_INT32;
    const char *indices = axes->indices;
    const uint64_t data_step = axes->data_step * size;
    const uint64_t size0 = axes[0].size, size1 = axes[coordinates - 1].size;
    const uint64_t stride0 = axes[0].stride * size, stride1 = axes[coordinates - 1].stride * size;
    const char *restrict data = rows->data + from * data_step;
    char *restrict output = rows->output + from * bytes;
    uint64_t met = 0;
    size_t j = from;
    for (; j < to; j++) {
        const size_t at = j * (size_t)coordinates;
        if (fetches) {
            uint64_t next = value_at(indices, at + ahead, type) * stride0;
            if (coordinates == 2) next += value_at(indices, at + ahead + 1, type) * stride1;
            FETCH((uintptr_t)data + next);
        }
        uint64_t first, second = 0;
        if (plain) {
            first = value_at(indices, at, type);
            if (first >= size0) break;
            if (coordinates == 2) second = value_at(indices, at + 1, type);
            if (second >= size1) break;
        } else {
            first = index_at(indices, at, type, is_signed, size0, &met);
            if (coordinates == 2) second = index_at(indices, at + 1, type, is_signed, size1, &met);
        }
        const char *row = data + first * stride0 + second * stride1;
        memcpy(output, row, piece);
        if (!whole) memcpy(output + end, row + end, piece);
        output += bytes;
        if (coordinates == 1) data += data_step;
    }
    *outside |= met;
    return j;
}

/* All rows of a tile: those with later indices first, then the last ones; of both the rows before
   the first index that is negative or out of range, then the rest. */
INLINED int fuse(const struct line *axes, const struct rows *rows, const int type,
                 const int coordinates, const size_t piece, const int whole) {
    const size_t count = rows->count;
    const size_t fetching = rows->ahead && count > rows->ahead ? count - rows->ahead : 0;
    uint64_t outside = 0;
    size_t done = 0;
    done = copy_range(axes, rows, done, fetching, &outside, type, coordinates, piece, whole, 1, 1);
    done = copy_range(axes, rows, done, fetching, &outside, type, coordinates, piece, whole, 0, 1);
    done = copy_range(axes, rows, done, count, &outside, type, coordinates, piece, whole, 1, 0);
    copy_range(axes, rows, done, count, &outside, type, coordinates, piece, whole, 0, 0);
    return outside != 0;
}

#define FUSED(type, coordinates)                                                                   \
    static int fuse_##type##_##coordinates(const struct line *axes, const struct rows *rows) {     \
        switch (rows->bytes) {                                                                     \
        case 1: return fuse(axes, rows, GATHER_##type, coordinates, 1, 1);                         \
        case 2: return fuse(axes, rows, GATHER_##type, coordinates, 2, 1);                         \
        case 4: return fuse(axes, rows, GATHER_##type, coordinates, 4, 1);                         \
        case 8: return fuse(axes, rows, GATHER_##type, coordinates, 8, 1);                         \
        case 16: return fuse(axes, rows, GATHER_##type, coordinates, 16, 1);                       \
        }                                                                                          \
        if (rows->bytes < 4) return fuse(axes, rows, GATHER_##type, coordinates, 2, 0);            \
        if (rows->bytes < 8) return fuse(axes, rows, GATHER_##type, coordinates, 4, 0);            \
        if (rows->bytes < 16) return fuse(axes, rows, GATHER_##type, coordinates, 8, 0);           \
        return fuse(axes, rows, GATHER_##type, coordinates, 16, 0);                                \
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
               const struct rows *rows) {
    static int (*const fused[2][4])(const struct line *, const struct rows *) = {
        {fuse_UINT32_1, fuse_UINT64_1, fuse_INT32_1, fuse_INT64_1},
        {fuse_UINT32_2, fuse_UINT64_2, fuse_INT32_2, fuse_INT64_2},
    };
#if VECTORS
    if (rows->eights) {
        const size_t done = rows->count / 8 * 8;
        struct line line = *axes;
        struct rows last = *rows;
        const int outside = fuse_eights(axes, rows, index_type);
        line.indices += done * (index_type % 2 ? 8 : 4);
        last.data += done * axes->data_step * rows->size;
        last.output += done * rows->bytes;
        last.count -= done;
        return outside | fused[0][index_type](&line, &last);
    }
#endif
    return fused[coordinates - 1][index_type](axes, rows);
}
