/* Included before each source of the library, notes which functions of ONNX Runtime it calls. */
__attribute__((weak, visibility("default"))) char called[415];
#define ORT_CALLED(number) (called[number] = 1)
