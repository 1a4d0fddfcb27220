cdef class Outbox:
    cdef public bytearray data
    cdef public Py_ssize_t size
    cdef int room(self, Py_ssize_t size) except? -1
