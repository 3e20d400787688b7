/* The Python module of the kernels: a gather on three numpy arrays.
   onnxgather/core/execution/prepared.py calls it. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* of 3.11 */
#include <Python.h>

#include <stdalign.h>
#include <string.h>

#include "kernel.h"
#include "threads.h"

#define TENSORS 3 /* InputTensor, IndicesTensor, OutputTensor */
#define OUTPUT 2
#define PARTS_PER_THREAD 4 /* so that a thread that starts late has less to do */

/* Python gives the numbers of struct gather up to reachable_count: 5 of 32 bits, then all of 64.
   Those behind only name an index, which Python does itself. */
#define NARROW 5
#define WIDE_BYTES (offsetof(struct gather, indices_rank) - offsetof(struct gather, sizes))

/* Bytes of output from which the GIL is released; a smaller gather ends before that would help. */
#define RELEASED_BYTES 65536

/* Whether every index was in range, or need not be. */
static int run_gather(const struct gather *gather, size_t threads, size_t parts, const void *data,
                      const void *indices, void *output) {
    gather_clear(gather, output);
    if (parts > 1) return gather_run_on_threads(gather, data, indices, output, parts, threads);
    return gather_run(gather, data, indices, output, 0, 1) != GATHER_STOPPED;
}

/* What an array must be to stand for a tensor. */
struct tensor {
    PyObject *type; /* its numpy.dtype: numpy has one object for each type that it makes itself */
    int rank;
    size_t bytes;
    Py_ssize_t shape[GATHER_MOST_LOOPS];
};

/* An array of numpy, as numpy's own C headers lay it out: every extension module reads it so, which
   takes a tenth of the time of the buffer protocol. */
struct array {
    PyObject_HEAD
    char *data;
    int rank;
    Py_ssize_t *shape, *strides;
    PyObject *base, *type;
    int flags;
};

enum { C_CONTIGUOUS = 0x1, WRITEABLE = 0x400 }; /* numpy's flags */

typedef struct {
    PyObject_HEAD
    PyObject *array_type; /* numpy.ndarray: a subclass may mean something else, as with a mask */
    struct gather gather;
    struct tensor tensors[TENSORS];
    size_t threads, parts;
} Gather;

static int fits(const struct tensor *tensor, const struct array *array, int flags, size_t size) {
    const size_t alignment = size == 8 ? alignof(uint64_t) : size;
    return array->type == tensor->type && array->rank == tensor->rank &&
           (array->flags & flags) == flags &&
           !memcmp(array->shape, tensor->shape, sizeof *tensor->shape * (size_t)tensor->rank) &&
           (uintptr_t)array->data % alignment == 0;
}

static int overlap(const char *first, size_t first_bytes, const char *second, size_t second_bytes) {
    const uintptr_t a = (uintptr_t)first, b = (uintptr_t)second;
    return a < b + second_bytes && b < a + first_bytes;
}

PyDoc_STRVAR(run_text,
             "run(data, indices, output)\n--\n\n"
             "Run the gather. True: it ran; False: an index is out of range, and the output holds\n"
             "anything; None: an object is not such an array, or the output overlaps an input.");

/* The caller holds the arrays until this returns, so their memory stays where it is, unless another
   thread resizes one without numpy's check. */
static PyObject *gather_call(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    Gather *self = (Gather *)object;
    const struct gather *gather = &self->gather;
    const size_t sizes[] = {gather->element_size, gather->index_type % 2 ? 8 : 4,
                            gather->element_size};
    const struct tensor *tensors = self->tensors;
    char *data[TENSORS];
    if (count != TENSORS) {
        PyErr_SetString(PyExc_TypeError, "run takes three arrays");
        return NULL;
    }
    for (int k = 0; k < TENSORS; k++) {
        const struct array *array = (const struct array *)arguments[k];
        const int flags = k == OUTPUT ? C_CONTIGUOUS | WRITEABLE : C_CONTIGUOUS;
        if ((PyObject *)Py_TYPE(arguments[k]) != self->array_type) Py_RETURN_NONE;
        if (!fits(&tensors[k], array, flags, sizes[k])) Py_RETURN_NONE;
        data[k] = array->data;
    }
    for (int k = 0; k < OUTPUT; k++)
        if (overlap(data[k], tensors[k].bytes, data[OUTPUT], tensors[OUTPUT].bytes)) Py_RETURN_NONE;
    PyThreadState *state = NULL;
    if (tensors[OUTPUT].bytes >= RELEASED_BYTES) state = PyEval_SaveThread();
    const int good = run_gather(gather, self->threads, self->parts, data[0], data[1], data[OUTPUT]);
    if (state) PyEval_RestoreThread(state);
    return PyBool_FromLong(good);
}

/* The numbers of struct gather in their order, all of 64 bits; lists are filled up with zeros. */
static const char *read_gather(const char *bytes, Py_ssize_t length, struct gather *gather) {
    uint64_t first[NARROW];
    uint32_t *narrow[NARROW] = {&gather->element_size, &gather->index_type, &gather->policy,
                                &gather->loop_count, &gather->tuple_size};
    if (length != (Py_ssize_t)(sizeof first + WIDE_BYTES)) return "numbers must be of one gather";
    memcpy(first, bytes, sizeof first);
    for (int k = 0; k < NARROW; k++) {
        if (first[k] > UINT32_MAX) return "the first five numbers must be below 2^32";
        *narrow[k] = (uint32_t)first[k];
    }
    memcpy((char *)gather + offsetof(struct gather, sizes), bytes + sizeof first, WIDE_BYTES);
    return gather_check(gather);
}

/* What an array must be: its type, and a shape of as many elements as the gather counts. */
static const char *read_tensor(PyObject *type, PyObject *shape, uint64_t size, uint64_t elements,
                               struct tensor *tensor) {
    Py_ssize_t rank = PyTuple_Size(shape);
    uint64_t product = 1;
    PyObject *bytes = PyObject_GetAttrString(type, "itemsize");
    const int is_type = bytes && PyLong_AsSsize_t(bytes) == (Py_ssize_t)size;
    Py_XDECREF(bytes);
    PyErr_Clear(); /* of what has no itemsize, or one that is no integer */
    if (!is_type) return "a type must have elements of the gather's size";
    if (rank < 1 || rank > GATHER_MOST_LOOPS) return "a shape must have 1 to 8 sizes";
    tensor->rank = (int)rank;
    for (Py_ssize_t k = 0; k < rank; k++) {
        Py_ssize_t along = PyLong_AsSsize_t(PyTuple_GetItem(shape, k));
        if (along < 1 || (uint64_t)along > elements / product) {
            PyErr_Clear(); /* of what is no integer */
            product = 0;
            break;
        }
        tensor->shape[k] = along;
        product *= (uint64_t)along;
    }
    if (product != elements || elements > (uint64_t)PY_SSIZE_T_MAX / size)
        return "a shape must have as many elements as the gather counts";
    tensor->bytes = (size_t)(elements * size);
    Py_INCREF(type);
    tensor->type = type;
    return NULL;
}

static PyObject *gather_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    const char *bytes, *wrong;
    PyObject *array_type, *types[TENSORS], *shapes[TENSORS];
    Py_ssize_t length, threads;
    (void)named;
    if (!PyArg_ParseTuple(arguments, "O!y#(OOO)(O!O!O!)n", &PyType_Type, &array_type, &bytes,
                          &length, &types[0], &types[1], &types[2], &PyTuple_Type, &shapes[0],
                          &PyTuple_Type, &shapes[1], &PyTuple_Type, &shapes[2], &threads))
        return NULL;
    Gather *self = (Gather *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    Py_INCREF(array_type);
    self->array_type = array_type;
    struct gather *gather = &self->gather;
    wrong = read_gather(bytes, length, gather);
    uint64_t size = gather->element_size, index_size = gather->index_type % 2 ? 8 : 4;
    uint64_t counts[] = {gather->data_count, gather->index_count, gather->output_count};
    for (int k = 0; k < TENSORS && !wrong; k++)
        wrong = read_tensor(types[k], shapes[k], k == 1 ? index_size : size, counts[k],
                            &self->tensors[k]);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        Py_DECREF(self);
        return NULL;
    }
    self->threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : (size_t)threads;
    self->parts = threads > 1 ? gather_parts(gather, self->threads * PARTS_PER_THREAD) : 1;
    if (self->threads > self->parts) self->threads = self->parts;
    return (PyObject *)self;
}

static void gather_dealloc(PyObject *object) {
    PyObject *type = (PyObject *)Py_TYPE(object);
    Gather *self = (Gather *)object;
    Py_XDECREF(self->array_type);
    for (int k = 0; k < TENSORS; k++) Py_XDECREF(self->tensors[k].type);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))gather_call, METH_FASTCALL, run_text},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
    gather_text,
    "Gather(array_type, numbers, types, shapes, threads)\n"
    "--\n\nA gather from the numbers of struct gather of kernel.h, 64 bits each. The types are\n"
    "numpy's, and so are the arrays: `array_type` must be numpy.ndarray.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)gather_text},
    {Py_tp_new, gather_new},
    {Py_tp_dealloc, gather_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"onnxgather._native.Gather", sizeof(Gather), 0, Py_TPFLAGS_DEFAULT,
                           slots};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return -failed;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Gathers without ONNX Runtime.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&definition);
}
