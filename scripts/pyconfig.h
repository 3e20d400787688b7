/* What Python's headers ask of pyconfig.h where a module keeps to the stable ABI, for every
   platform of scripts/wheels.py. A Python of such a platform would bring its own, but no package
   index has one. The compiler says the sizes of its types. */
#define SIZEOF_VOID_P __SIZEOF_POINTER__      /* pyport.h: Py_ssize_t; pyhash.h */
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__       /* pyport.h: Py_ssize_t, Py_hash_t */
#define SIZEOF_INT __SIZEOF_INT__             /* longobject.h */
#define SIZEOF_LONG __SIZEOF_LONG__           /* pyport.h: LONG_BIT, which it compares */
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__ /* longobject.h */
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__     /* unicodeobject.h */
#define SIZEOF_PID_T 4                        /* longobject.h: int on all of these platforms */
#define HAVE_STDDEF_H 1                       /* Python.h: size_t */
#ifdef _WIN32
#define MS_WINDOWS 1        /* Python.h: there is no unistd.h */
#define MS_WIN64 1          /* pythonrun.h: the stack of a 64-bit process */
#define HAVE_DECLSPEC_DLL 1 /* pyport.h: what Python has is imported */
#define Py_ENABLE_SHARED 1  /* from python3.dll */
#endif
