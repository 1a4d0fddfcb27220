cdef long long name_key(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept
cdef long long topic_key(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept
cdef long long queue_key(long long topic, long long queue_id) noexcept
cdef bint is_dead(long long* dead, Py_ssize_t count, long long key, long long offset, long long position) noexcept
cdef long long inner_count(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
cdef Py_ssize_t entry_size(int kind) noexcept
cdef bint read_entry(
    const unsigned char* p, Py_ssize_t at, int kind, long long queue, long long number,
    long long* starts, Py_ssize_t start_count, long long* e) noexcept
