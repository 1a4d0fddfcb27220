from litemq.format._spans_cy cimport Spans


cdef class Outbox:
    cdef public bytearray data
    cdef public Py_ssize_t size
    cdef int room(self, Py_ssize_t size) except? -1
    cpdef bytes take(self)


cpdef int sends(
    Spans spans, Py_ssize_t first, Py_ssize_t last, Outbox out, long long code=*) except? -1


cdef Py_ssize_t put_pull_head(
    unsigned char* p, Py_ssize_t room, Py_ssize_t body_size, long long codec, long long code, long long opaque,
    long long next_offset, long long low, long long high) noexcept
