from litemq.features._long_poll_cy cimport LongPolls, Waiter
from litemq.store._slice_cy cimport Pulled
from litemq.store._tail_pull_cy cimport TailPuller
from litemq.store._tails_cy cimport QueueTail


cdef class Pull(Waiter):
    cdef readonly str group
    cdef readonly str topic
    cdef readonly long long queue_id
    cdef readonly object filter
    cdef readonly object hashes
    cdef readonly frozenset names
    cdef readonly bint is_sql
    cdef public long long max_count
    cdef public long long max_bytes
    cdef public bint is_capped
    cdef readonly long long park_ms
    cdef readonly bint as_rocketmq
    cdef readonly tuple key
    cdef public QueueTail tail
    cdef public long long offset
    cdef long long until_ms
    cdef public bint is_busy
    cdef public long long checked
    cpdef int give(self, Pulled pulled) except? -1
    cpdef int tell(self, verdict, long long next_offset, long long low, long long high) except? -1
    cpdef int refuse(self, error) except? -1


cdef class PullCore:
    cdef readonly object reader
    cdef TailPuller quick
    cdef list woken
    cdef dict resets
    cdef readonly LongPolls polls
    cdef object now_ms
    cdef public long long generation
    cdef public long long kept
    cdef public dict delivered
    cdef public long long park_refusals
    cdef public long long capped
    cdef public long long found
    cdef public long long missed
    cpdef bint tell_reset(self, Pull pull) except? -1
    cpdef QueueTail open_queue(self, Pull pull)
    cpdef int read_cold(self, Pull pull, cold) except? -1
    cpdef int keep_matching(self, Pull pull, Pulled pulled) except? -1
    cpdef int pull(self, Pull pull) except? -1
    cpdef int look(self, Pull pull, bint may_park) except? -1
    cpdef int judge(self, Pull pull, Pulled found, bint may_park) except? -1
    cdef int skip(self, Pull pull, Pulled found, bint may_park) except? -1
    cdef int wait(self, Pull pull, long long low, long long high, bint may_park) except? -1
    cpdef bint park(self, Pull pull, long long high) except? -1
    cpdef int wake(self) except? -1
    cpdef int look_safely(self, Pull pull, bint may_park) except? -1
    cpdef int give_up(self, Pull pull, error) except? -1
