// The header in a program as games build it: the tests compile this without exceptions and without
// run-time type information.
#include "DirectML.h"

#include "directml_capture.h"

IDMLDevice* captured(IDMLDevice* device) {
    IDMLDevice* recording = onnxgather::capture(device, L"C:/gathers", nullptr, 8);
    onnxgather::write_indices(recording);
    return recording;
}
