from litemq.broker._pull_cy cimport PullCore
from litemq.broker._sent_cy cimport SentCounts
from litemq.broker.faces.remoting._pulls_cy cimport PullTable
from litemq.format._spans_cy cimport Peer, Spans
from litemq.store._rows_cy cimport RowAppender
from litemq.wire.remoting._answers_cy cimport Outbox
from litemq.wire.remoting._busy_poll_cy cimport BusyPoll
from litemq.wire.remoting._receiver_cy cimport Receiver


cdef class Bench:
    cdef readonly object store
    cdef readonly RowAppender rows
    cdef readonly object durability
    cdef readonly PullCore puller
    cdef list woken
    cdef readonly BusyPoll busy_poll
    cdef readonly SentCounts sent
    cdef readonly Spans spans
    cdef readonly Outbox outbox
    cdef public object now_ns


cdef class RowReceiver(Receiver):
    cdef Bench bench
    cdef PullTable pulls
    cdef Peer sender
    cdef bint drains
    cpdef int serve_row(self, Spans spans, Py_ssize_t row) except? -1
    cpdef int refuse_row(self, Spans spans, Py_ssize_t row, error) except? -1
    cpdef int hold(self, bytes answers) except? -1
    cpdef int choke(self) except? -1
    cdef Py_ssize_t serve_rows(self, Spans spans) except? -1
    cdef int finish(self, bint is_single) except? -1
    cdef int tell(self, bytes answers, bint sleeps) except? -1
