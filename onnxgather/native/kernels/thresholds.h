/* The numbers that decide how a gather is run. */
#ifndef ONNXGATHER_THRESHOLDS_H
#define ONNXGATHER_THRESHOLDS_H

enum {
    /* Rows of a tile, whose offsets the nearest cache holds beside the rows. */
    TILE_ROWS = 1024,
    /* Rows of a tile whose rows are short, or whose offsets are used again. */
    LONG_TILE_ROWS = 8192,
    /* A tile takes in one more loop while it has fewer rows. */
    FEW_TILE_ROWS = 256,
    /* Bytes of a row, up to which it is copied in the pass that reads its index. */
    SHORT_ROW_BYTES = 32,
    /* Bytes of a row from which memcpy copies it. */
    LONG_ROW_BYTES = 1024,
    /* Bytes of a row from which it may pass the caches by. */
    STREAMED_ROW_BYTES = 128,
    /* A row is fetched so many rows before it is copied; a single element so many elements. */
    ROWS_AHEAD = 12,
    ELEMENTS_AHEAD = 64,
    /* Bytes at the start of a long row that are fetched before it is copied. */
    FETCHED_ROW_BYTES = 512,
    /* Bytes of data up to which single elements are not fetched; and for rows and pairs. */
    NEAR_BYTES = 1 << 22,
    NEAR_ROWS_BYTES = 1 << 18,
    /* Bytes of data up to which those of a tile are read ahead. */
    READ_AHEAD_BYTES = 1 << 18,
    /* A loop is cut into about equal parts if it has so many steps for each. */
    MANY_STEPS = 16,
    /* Bytes of output that are worth a part, which one thread runs. */
    LEAST_PART_BYTES = 1 << 16,
};

#endif
