/* The Python module of the kernels. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_native"};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    return PyModule_Create(&definition);
}
