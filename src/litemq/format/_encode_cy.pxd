from litemq._message_cy cimport Message

cdef class Plan:
    cdef public Py_ssize_t size
    cdef public int sys_flag
    cdef public Py_ssize_t checksum
    cdef public bint plain
    cdef public bytes born_host
    cdef public bytes text
    cdef public list extra

cdef int plan_litemq(Message message, str store_host, Plan plan) except? -1
cdef int plan_rocketmq(Message message, str store_host, bytes store_address, Plan plan, bint checked) except? -1
cdef int put_litemq(
    unsigned char* p, Py_ssize_t at, Message message, Plan plan, long long position, long long queue_offset,
    long long store_time, str store_host, long long* rows, Py_ssize_t o) except? -1
cdef int put_rocketmq(
    unsigned char* p, Py_ssize_t at, Message message, Plan plan, long long position, long long queue_offset,
    long long store_time, bytes store_address, long long* rows, Py_ssize_t o) except? -1
cdef int put_crc32(unsigned char* p, Py_ssize_t at, unsigned int crc) except? -1
