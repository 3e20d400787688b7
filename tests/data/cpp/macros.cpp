/* Constants that are macros,
   one made of another. */
#ifndef GATHER_H
#define GATHER_H
#define ROWS 4 /* of the table */
#define COLUMNS (ROWS - 1) // of the table
#define SIZES { ROWS, COLUMNS }
#define ELEMENT DML_TENSOR_DATA_TYPE_FLOAT32
#define TABLE_BYTES (ROWS * COLUMNS * sizeof(FLOAT))
static const UINT kInput[] = SIZES, kIndices[] = {1, 2}, kOutput[] = {ROWS, 2};
static const DML_BUFFER_TENSOR_DESC a = {ELEMENT, DML_TENSOR_FLAG_NONE, 2, kInput, 0, TABLE_BYTES};
static const DML_BUFFER_TENSOR_DESC b = {DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE,
                                         _countof(kIndices), kIndices, NULL, sizeof(kIndices)};
static const DML_BUFFER_TENSOR_DESC c = {ELEMENT, DML_TENSOR_FLAG_NONE,
                                         sizeof(kOutput) / sizeof(kOutput[0]), kOutput, 0, 0x20};
static const DML_TENSOR_DESC input = {DML_TENSOR_TYPE_BUFFER, &a},
                             indices = {DML_TENSOR_TYPE_BUFFER, &b},
                             output = {DML_TENSOR_TYPE_BUFFER, &c};
static const DML_GATHER_OPERATOR_DESC gather_desc = {&input, &indices, &output, COLUMNS - 2, 1};
#endif
