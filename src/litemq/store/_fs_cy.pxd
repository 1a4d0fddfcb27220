cdef class Descriptor:
    cdef public int fd
