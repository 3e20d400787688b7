/* The Python module of the kernels: a gather on three numpy arrays, for onnxgather/prepared.py. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* of 3.11 */
#include <Python.h>

#include <stdalign.h>
#include <string.h>

#include "kernel.h"

#define TENSORS 3      /* InputTensor, IndicesTensor, OutputTensor */
#define OUTPUT 2
#define MOST_THREADS 64

/* Python gives the numbers of struct gather up to reachable_count: 5 of 32 bits, then all of 64.
   Those behind only name an index, which Python does itself. */
#define NARROW 5
#define WIDE_BYTES (offsetof(struct gather, indices_rank) - offsetof(struct gather, sizes))

/* Below so many bytes of output, a gather is done before another thread of Python could begin. */
#define RELEASED_BYTES ((uint64_t)16 << 10)

/* One part of a gather on a thread. Threads are made for a call and end with it, so the child of
   a fork misses none. */
struct part {
    const struct gather *gather;
    const void *data, *indices;
    void *output;
    size_t number, count;
    int fine;
};

static void run_part(struct part *part) {
    part->fine = gather_run(part->gather, part->data, part->indices, part->output, part->number,
                            part->count);
}

#ifdef _WIN32
#include <windows.h>
typedef HANDLE thread;
static DWORD WINAPI start(LPVOID part) { return run_part(part), 0; }
static int begin(thread *made, struct part *part) {
    return (*made = CreateThread(NULL, 0, start, part, 0, NULL)) != NULL;
}
static void end(thread made) { WaitForSingleObject(made, INFINITE), CloseHandle(made); }
#else
#include <pthread.h>
typedef pthread_t thread;
static void *start(void *part) { return run_part(part), NULL; }
static int begin(thread *made, struct part *part) {
    return pthread_create(made, NULL, start, part) == 0;
}
static void end(thread made) { pthread_join(made, NULL); }
#endif

/* Whether every index was in range, or need not be. */
static int run_parts(const struct gather *gather, size_t count, const void *data,
                     const void *indices, void *output) {
    struct part parts[MOST_THREADS];
    thread threads[MOST_THREADS];
    int begun[MOST_THREADS] = {0}, fine = 1;
    gather_clear(gather, output);
    for (size_t k = 0; k < count; k++)
        parts[k] = (struct part){gather, data, indices, output, k, count, 0};
    for (size_t k = 1; k < count; k++) begun[k] = begin(&threads[k], &parts[k]);
    for (size_t k = 0; k < count; k++)
        if (!begun[k]) run_part(&parts[k]); /* the first one, and where no thread could be made */
    for (size_t k = 0; k < count; k++) {
        if (begun[k]) end(threads[k]);
        fine &= parts[k].fine;
    }
    return fine;
}

/* What an array must be to stand for a tensor. */
struct tensor {
    char kind; /* numpy's: f, i or u */
    int rank;
    Py_ssize_t size, bytes; /* of an element; of all */
    Py_ssize_t shape[GATHER_MOST_LOOPS];
};

typedef struct {
    PyObject_HEAD
    PyObject *array_type; /* numpy.ndarray: a subclass may mean something else, as with a mask */
    struct gather gather;
    struct tensor tensors[TENSORS];
    size_t parts;
} Gather;

/* numpy's kind of the elements of a buffer; 0 for what is none of f, i, u of this byte order. */
static char kind_of(const char *format) {
    const uint16_t one = 1;
    char here = *(const char *)&one ? '<' : '>';
    if (!format) return 'u';
    if (*format == '@' || *format == '=' || *format == here) format++;
    if (!*format || format[1]) return 0;
    if (strchr("efd", *format)) return 'f';
    return strchr("bhilqn", *format) ? 'i' : strchr("BHILQN", *format) ? 'u' : 0;
}

static int fits(const struct tensor *tensor, const Py_buffer *view) {
    size_t alignment = tensor->size == 8 ? alignof(uint64_t) : (size_t)tensor->size;
    return view->itemsize == tensor->size && view->len == tensor->bytes &&
           view->ndim == tensor->rank && kind_of(view->format) == tensor->kind &&
           !memcmp(view->shape, tensor->shape, sizeof *view->shape * (size_t)tensor->rank) &&
           (uintptr_t)view->buf % alignment == 0;
}

static int overlaps(const Py_buffer *a, const Py_buffer *b) {
    uintptr_t first = (uintptr_t)a->buf, second = (uintptr_t)b->buf;
    return first < second + (size_t)b->len && second < first + (size_t)a->len;
}

PyDoc_STRVAR(run_text, "run(data, indices, output)\n--\n\n"
             "Run the gather. True: it ran; False: an index is out of range, and the output holds\n"
             "anything; None: an object is not such an array, or the output overlaps an input.");

static PyObject *run(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    Gather *self = (Gather *)object;
    Py_buffer views[TENSORS];
    int held = 0, good = 1;
    PyObject *answer = Py_None;
    if (count != TENSORS) {
        PyErr_SetString(PyExc_TypeError, "run takes three arrays");
        return NULL;
    }
    for (; held < TENSORS && good; held += good) {
        PyObject *array = arguments[held];
        int flags = PyBUF_ND | PyBUF_FORMAT | (held == OUTPUT ? PyBUF_WRITABLE : 0);
        if ((PyObject *)Py_TYPE(array) != self->array_type) break;
        if (PyObject_GetBuffer(array, &views[held], flags)) {
            PyErr_Clear();
            break;
        }
        good = fits(&self->tensors[held], &views[held]);
        if (!good) PyBuffer_Release(&views[held]);
    }
    if (held == TENSORS && !overlaps(&views[0], &views[2]) && !overlaps(&views[1], &views[2])) {
        const struct gather *gather = &self->gather;
        const void *data = views[0].buf, *indices = views[1].buf;
        PyThreadState *state = NULL;
        if ((uint64_t)views[OUTPUT].len >= RELEASED_BYTES) state = PyEval_SaveThread();
        good = run_parts(gather, self->parts, data, indices, views[OUTPUT].buf);
        if (state) PyEval_RestoreThread(state);
        answer = good ? Py_True : Py_False;
    }
    while (held) PyBuffer_Release(&views[--held]);
    Py_INCREF(answer);
    return answer;
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

/* What an array must be: its kind, and a shape of as many elements as the gather counts. */
static const char *read_tensor(const char *kind, PyObject *shape, uint64_t size, uint64_t elements,
                               struct tensor *tensor) {
    Py_ssize_t rank = PyTuple_Size(shape);
    uint64_t product = 1;
    if (rank < 1 || rank > GATHER_MOST_LOOPS) return "a shape must have 1 to 8 sizes";
    tensor->kind = *kind;
    tensor->rank = (int)rank;
    for (Py_ssize_t k = 0; k < rank; k++) {
        Py_ssize_t along = PyLong_AsSsize_t(PyTuple_GetItem(shape, k));
        if (along < 1 || (uint64_t)along > elements / product) PyErr_Clear(), product = 0;
        if (!product) break;
        tensor->shape[k] = along;
        product *= (uint64_t)along;
    }
    if (product != elements || elements > (uint64_t)PY_SSIZE_T_MAX / size)
        return "a shape must have as many elements as the gather counts";
    tensor->size = (Py_ssize_t)size;
    tensor->bytes = (Py_ssize_t)(elements * size);
    return NULL;
}

static PyObject *new_gather(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    const char *bytes, *kinds, *wrong;
    PyObject *array_type, *shapes[TENSORS];
    Py_ssize_t length, kind_count, threads;
    (void)named;
    if (!PyArg_ParseTuple(arguments, "O!y#s#O!O!O!n", &PyType_Type, &array_type, &bytes, &length,
                          &kinds, &kind_count, &PyTuple_Type, &shapes[0], &PyTuple_Type,
                          &shapes[1], &PyTuple_Type, &shapes[2], &threads))
        return NULL;
    Gather *self = (Gather *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    Py_INCREF(array_type);
    self->array_type = array_type;
    struct gather *gather = &self->gather;
    wrong = kind_count == TENSORS ? read_gather(bytes, length, gather) : "kinds must be three";
    uint64_t size = gather->element_size, index_size = gather->index_type % 2 ? 8 : 4;
    uint64_t counts[] = {gather->data_count, gather->index_count, gather->output_count};
    for (int k = 0; k < TENSORS && !wrong; k++)
        wrong = read_tensor(kinds + k, shapes[k], k == 1 ? index_size : size, counts[k],
                            &self->tensors[k]);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        Py_DECREF(self);
        return NULL;
    }
    size_t most = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : (size_t)threads;
    self->parts = gather_parts(gather, most);
    return (PyObject *)self;
}

static void forget(PyObject *object) {
    PyObject *type = (PyObject *)Py_TYPE(object);
    Py_XDECREF(((Gather *)object)->array_type);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, run_text},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(gather_text,
             "Gather(array_type, numbers, kinds, data_shape, indices_shape, output_shape, threads)\n"
             "--\n\nA gather from the numbers of struct gather of kernel.h, 64 bits each.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)gather_text},
    {Py_tp_new, new_gather},
    {Py_tp_dealloc, forget},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"onnxgather._native.Gather", sizeof(Gather), 0, Py_TPFLAGS_DEFAULT, slots};

static int fill(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return -failed;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "Gathers without ONNX Runtime.", 0, NULL, module_slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&definition);
}
