from litemq.client._message_cy cimport Message


cdef class Sent:
    cdef readonly str message_id
    cdef readonly str topic
    cdef readonly str broker
    cdef readonly long long queue_id
    cdef readonly long long queue_offset
    cdef readonly str offset_id
