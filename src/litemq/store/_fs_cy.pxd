cdef class Descriptor:
    cdef public int fd
    cpdef Py_ssize_t read_part(
        self, bytearray target, Py_ssize_t at, Py_ssize_t size, long long position, bint nowait) except? -2
