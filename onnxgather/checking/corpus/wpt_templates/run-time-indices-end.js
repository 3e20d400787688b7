];

webnn_conformance_test(
    ${method}RunTimeTests, buildAndExecuteGraph, getZeroULPTolerance);
