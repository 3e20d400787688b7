// META: title=test WebNN API METHOD operation with indices bound at run time
// META: global=window
// META: variant=?cpu
// META: variant=?gpu
// META: variant=?npu
// META: script=../resources/utils.js
// META: timeout=long

'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraphbuilder-METHOD
// Both operands are inputs of the graph, negative indices count from the end, and no
// shape has more than LARGEST_RANK dimensions. A gather moves bits, so nothing may differ.

const METHODRunTimeTests = [
  TESTS,
];

webnn_conformance_test(
    METHODRunTimeTests, buildAndExecuteGraph, getZeroULPTolerance);
