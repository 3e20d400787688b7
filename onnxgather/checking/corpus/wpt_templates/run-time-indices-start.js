// META: title=test WebNN API $method operation with indices bound at run time
// META: global=window
// META: variant=?cpu
// META: variant=?gpu
// META: variant=?npu
// META: script=../resources/utils.js
// META: timeout=long

'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraphbuilder-${method}
// Both operands are inputs of the graph, negative indices count from the end, and no
// shape has more than $largest dimensions. A gather moves bits, so nothing may differ.

const ${method}RunTimeTests = [
