cdef class Waiter:
    cdef public object owner
    cdef public object queue
    cdef public long long deadline_ms
    cdef public bint is_waiting
    cdef public long long step


cdef class LongPolls:
    cdef public long long limit
    cdef public long long count
    cdef dict by_queue
    cdef dict by_owner
    cdef dict by_step
    cdef readonly long long listed
    cpdef bint park(self, Waiter waiter, queue, long long deadline_ms) except? -1
    cdef int list_deadline(self, Waiter waiter) except? -1
    cdef int prune(self) except? -1
    cpdef list wake(self, queue)
    cdef int leave(self, Waiter waiter) except? -1
    cdef int unlist(self, Waiter waiter) except? -1
