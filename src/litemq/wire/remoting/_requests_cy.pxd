from litemq.format._spans_cy cimport Spans

cpdef Py_ssize_t split(Spans spans, Py_ssize_t start, Py_ssize_t size) except? -1
