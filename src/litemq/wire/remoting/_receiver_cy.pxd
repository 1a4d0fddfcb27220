cdef class Receiver:
    cdef public object transport
    cdef bytearray shared
    cdef object shared_view
    cdef bytearray beginning
    cdef Py_ssize_t kept
    cdef bint reads_own
    cdef public int descriptor
    cdef public bint is_alive
    cdef public bint is_paused
    cdef public bint is_behind
    cdef public bint has_just_come
    cdef int keep(self, beginning) except? -1
    cpdef Py_ssize_t take(self, bytearray buffer, Py_ssize_t size) except? -1
    cpdef int reject(self, error) except? -1
    cpdef int check_unread(self) except? -1
    cpdef bint may_read_now(self) except? -1
    cpdef int go_on(self) except? -1
    cdef int serve_safely(self, Py_ssize_t got) except? -1
    cpdef bint later(self) except? -1
    cpdef int write(self, data) except? -1


cpdef int give_way() noexcept
cpdef int read_first(list receivers, int turns) except? -1
