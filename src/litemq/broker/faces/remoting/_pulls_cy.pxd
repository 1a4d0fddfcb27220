from litemq.broker._pull_cy cimport Pull, PullCore
from litemq.format._spans_cy cimport Spans


cdef class RemotingPull(Pull):
    cdef readonly object connection
    cdef public long long codec
    cdef public long long opaque


cdef class PullTable:
    cdef PullCore puller
    cdef object offsets
    cdef object prepare
    cdef dict known
    cdef bytearray key
    cpdef int serve(self, Spans spans, Py_ssize_t row) except? -1
    cpdef int clear(self) except? -1
    cdef int keep(self, bytes key, RemotingPull pull) except? -1
    cdef bytes key_of(self, Spans spans, Py_ssize_t o)
    cdef Py_ssize_t put_text(self, Spans spans, Py_ssize_t cell, Py_ssize_t at) noexcept
