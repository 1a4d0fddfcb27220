from litemq.format._spans_cy cimport Spans

cdef int read_json(
    Spans spans, unsigned char *p, Py_ssize_t at, Py_ssize_t size, long long *rows, Py_ssize_t o) except? -1
