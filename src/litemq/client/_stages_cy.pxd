cdef class Sink:
    cdef readonly str broker
    cdef public Py_ssize_t sequence
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly dict topics
    cdef bytearray out
    cpdef object clear(self)
    cdef int make_room(self, Py_ssize_t size) except? -1


cdef class Target:
    cdef readonly list sinks
    cdef readonly list queues
    cdef public Py_ssize_t turn
