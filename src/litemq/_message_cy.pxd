cimport cython


@cython.final
cdef class Message:
    cdef readonly str topic
    cdef readonly bytes body
    cdef readonly long long queue_id
    cdef readonly str message_id
    cdef readonly tuple tags
    cdef readonly tuple keys
    cdef readonly dict properties
    cdef readonly int type
    cdef readonly int priority
    cdef readonly int reliability
    cdef readonly unsigned long long delay_time
    cdef readonly str transaction_id
    cdef readonly int status
    cdef readonly str sharding_key
    cdef readonly bint broadcast
    cdef readonly unsigned long long born_time
    cdef readonly str born_host
    cdef readonly int flag
    cdef readonly object sys_flag
    cdef readonly long long reconsume_times
    cdef readonly long long prepared_offset
    cdef readonly unsigned long long consume_start_time
    cdef readonly unsigned long long consume_end_time


@cython.final
cdef class Appended:
    cdef readonly long long position
    cdef readonly long long end
    cdef readonly long long queue_offset
    cdef readonly long long store_time
