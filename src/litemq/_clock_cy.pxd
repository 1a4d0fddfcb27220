cpdef long long wall_ms() noexcept
