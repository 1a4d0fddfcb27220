from litemq.wire.remoting._receiver_cy cimport Receiver


cdef class BusyPoll:
    cdef object loop
    cdef public long long limit_ns
    cdef object now_ns
    cdef object look_again
    cdef long long last
    cdef long long streak
    cdef list sources
    cdef long long familiar
    cdef readonly bint is_awake
    cdef readonly long long turns
    cpdef int note(self, long long count, Receiver source) except? -1
    cpdef int forget(self, Receiver source) except? -1
