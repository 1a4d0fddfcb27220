cdef class Peer:
    cdef readonly str host
    cdef readonly bytes text
    cdef readonly bytes address


cdef class Spans:
    cdef public bytearray data
    cdef public bytearray text
    cdef public Py_ssize_t text_size
    cdef public Peer peer
    cdef public bytes store_address
    cdef object table
    cdef long long[::1] rows
    cdef readonly Py_ssize_t limit
    cdef public Py_ssize_t count
    cdef public int status
    cdef public Py_ssize_t wanted
    cdef long long seen
    cdef bint is_batch
    cdef int value_form
    cdef Py_ssize_t value_at
    cdef Py_ssize_t value_size
    cpdef int clear(self) except? -1
    cdef int need_rows(self, Py_ssize_t count) except? -1
    cdef int need_text(self, Py_ssize_t size) except? -1
