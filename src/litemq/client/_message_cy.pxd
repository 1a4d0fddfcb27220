cdef class Message:
    cdef readonly str topic
    cdef bytes stored
    cdef readonly object opened
    cdef bytes raw
    cdef readonly dict pairs
    cdef readonly int sys_flag
    cdef readonly int flag
    cdef readonly long long queue_id
    cdef readonly long long queue_offset
    cdef readonly long long position
    cdef readonly long long born_ms
    cdef readonly long long stored_ms
    cdef readonly long long reconsume_times
    cdef readonly bytes store_host
    cdef readonly str broker
    cdef readonly str group
