from litemq.client._message_cy cimport Message


cdef class Sent:
    cdef readonly str message_id
    cdef readonly str topic
    cdef readonly str broker
    cdef readonly long long queue_id
    cdef readonly long long queue_offset
    cdef str ids
    cdef Py_ssize_t place


cdef class Ids:
    cdef bytes prefix
    cdef long long count
    cdef long long month_start
    cdef long long month_end
    cpdef str next(self)


cdef class Outgoing:
    cdef readonly Message message
    cdef public bytes body
    cdef readonly str message_id
    cdef public bytes text
    cdef public int sys_flag
    cdef readonly Py_ssize_t size
    cdef public object future
    cdef public double deadline
    cdef public Py_ssize_t era


cpdef str new_id()
cpdef bytes properties_text(Message message, str message_id)
