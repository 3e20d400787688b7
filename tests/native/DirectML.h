// Stands for Microsoft's DirectML.h where onnxgather/native/directml_capture.h is compiled: that of
// the hosts, with the graphs. Sources as there.
#pragma once

#include "directml.h"

#define DML_TARGET_VERSION 0x6400

enum DML_GRAPH_EDGE_TYPE {
    DML_GRAPH_EDGE_TYPE_INVALID,
    DML_GRAPH_EDGE_TYPE_INPUT,
    DML_GRAPH_EDGE_TYPE_OUTPUT,
    DML_GRAPH_EDGE_TYPE_INTERMEDIATE,
};

struct DML_GRAPH_EDGE_DESC {
    DML_GRAPH_EDGE_TYPE Type;
    const void *Desc;
};

struct DML_INPUT_GRAPH_EDGE_DESC {
    UINT GraphInputIndex;
    UINT ToNodeIndex;
    UINT ToNodeInputIndex;
    const char *Name;
};

struct DML_OUTPUT_GRAPH_EDGE_DESC {
    UINT FromNodeIndex;
    UINT FromNodeOutputIndex;
    UINT GraphOutputIndex;
    const char *Name;
};

enum DML_GRAPH_NODE_TYPE { DML_GRAPH_NODE_TYPE_INVALID, DML_GRAPH_NODE_TYPE_OPERATOR };

struct DML_GRAPH_NODE_DESC {
    DML_GRAPH_NODE_TYPE Type;
    const void *Desc;
};

struct DML_OPERATOR_GRAPH_NODE_DESC {
    IDMLOperator *Operator;
    const char *Name;
};

struct DML_GRAPH_DESC {
    UINT InputCount;
    UINT OutputCount;
    UINT NodeCount;
    const DML_GRAPH_NODE_DESC *Nodes;
    UINT InputEdgeCount;
    const DML_GRAPH_EDGE_DESC *InputEdges;
    UINT OutputEdgeCount;
    const DML_GRAPH_EDGE_DESC *OutputEdges;
    UINT IntermediateEdgeCount;
    const DML_GRAPH_EDGE_DESC *IntermediateEdges;
};

struct IDMLDevice1 : IDMLDevice {
    // {a0884f9a-d2be-4355-aa5d-5901281ad1d2}
    static constexpr GUID iid{
        0xa0884f9a, 0xd2be, 0x4355, {0xaa, 0x5d, 0x59, 0x01, 0x28, 0x1a, 0xd1, 0xd2}};
    virtual HRESULT STDMETHODCALLTYPE CompileGraph(const DML_GRAPH_DESC *, DML_EXECUTION_FLAGS,
                                                   REFIID, void **) = 0;
};
