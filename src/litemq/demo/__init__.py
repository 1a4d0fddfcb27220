"""``make demo``: a broker, a producer and a consumer as processes of their own, and a ``kill -9`` on the way."""
