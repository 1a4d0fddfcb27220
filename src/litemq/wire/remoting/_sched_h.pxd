cdef extern from "<sched.h>" nogil:
    int sched_yield()
