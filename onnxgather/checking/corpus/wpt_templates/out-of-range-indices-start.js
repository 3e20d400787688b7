// META: title=test WebNN API $method operation with indices out of range
// META: global=window
// META: variant=?cpu
// META: variant=?gpu
// META: variant=?npu
// META: script=../resources/utils.js
// META: timeout=long

'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraphbuilder-${method}
// The specification wants indices in [-N, N). For others it wants proper bounds checking
// (Security Considerations), and names clamping in a note alone. So an output element of
// `outOfRangePositions` may be any element of the input, or 0, but no other memory. All
// other elements must be exact.

const ${method}OutOfRangeTests = [
