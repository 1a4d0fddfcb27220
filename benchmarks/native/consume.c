// Drains a backlog: one pull in flight per queue, the queues of a topic spread over the connections.
#define _GNU_SOURCE
#include "modes.h"
#include "remoting.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { uint64_t offset, end; bool is_done; } Queue;

typedef struct {
    Connection *connections;
    struct pollfd *polled;
    Queue *queues;
    int connection_count, queue_count, batch;
    bool is_json;
    const char *topic, *group;
    uint64_t consumed, bytes, pulls, bad, limit;
    Latencies latencies;
    uint64_t *pulled_ns;
} Drain;

static void complain(Drain *d, const char *what, int64_t value) {
    if (d->bad++ == 0) fprintf(stderr, "loadtool: bad pull answer: %s %" PRId64 "\n", what, value);
}

static void pull(Drain *d, int queue) {
    Connection *c = &d->connections[queue % d->connection_count];
    pull_put(c, d->is_json, (uint32_t)queue, d->group, d->topic, (unsigned)queue, d->queues[queue].offset, d->batch, false);
    d->pulled_ns[queue] = now_ns();
    d->pulls++;
}

// Offsets must follow each other without a gap, and the records must fill the body.
static void read_records(Drain *d, Queue *queue, const Answer *answer) {
    size_t at = 0;
    Record record;
    for (; at < answer->body_size; at += record.size) {
        if (!record_read(answer->body + at, answer->body_size - at, &record)) {
            complain(d, "no record at byte", (int64_t)at);
            break;
        }
        if (record.offset != queue->offset) complain(d, "not the next offset:", (int64_t)record.offset);
        queue->offset = record.offset + 1;
        d->consumed++;
    }
    d->bytes += answer->body_size;
}

static void handle(Drain *d, const Answer *answer) {
    if (answer->opaque >= (uint32_t)d->queue_count) {
        complain(d, "nobody asked, opaque", answer->opaque);
        return;
    }
    int number = (int)answer->opaque;
    Queue *queue = &d->queues[number];
    latencies_add(&d->latencies, now_ns() - d->pulled_ns[number]);
    if (answer->code == 0) read_records(d, queue, answer);
    else if (answer->code != 19) complain(d, "code", answer->code);
    if (answer->code == 0 && answer->body_size == 0) complain(d, "found nothing, code", 0);
    int64_t next = answer_number(answer, "nextBeginOffset");
    if (next != (int64_t)queue->offset) complain(d, "nextBeginOffset", next);
    queue->is_done = answer->code != 0 || (queue->end > 0 && queue->offset >= queue->end) || d->consumed >= d->limit;
}

static void read_offsets(Drain *d, char *text) {
    int queue = 0;
    for (char *part = strtok(text, ","); part != NULL && queue < d->queue_count; part = strtok(NULL, ","))
        d->queues[queue++].offset = strtoull(part, NULL, 10);
}

static void turn(Drain *d, double rate, uint64_t began) {
    for (int i = 0; i < d->connection_count; i++)
        d->polled[i].events = POLLIN | (connection_waits(&d->connections[i]) ? POLLOUT : 0);
    if (poll(d->polled, (nfds_t)d->connection_count, 100) < 0 && errno != EINTR) die("poll: %s", strerror(errno));
    for (int i = 0; i < d->connection_count; i++) {
        Connection *c = &d->connections[i];
        if (d->polled[i].revents & POLLOUT) connection_flush(c);
        if (!(d->polled[i].revents & (POLLIN | POLLHUP | POLLERR)) || !connection_fill(c)) continue;
        size_t at = 0;
        Answer answer;
        for (; answer_read(c, at, &answer); at += answer.size) {
            handle(d, &answer);
            if (answer.opaque < (uint32_t)d->queue_count && !d->queues[answer.opaque].is_done) pull(d, (int)answer.opaque);
        }
        connection_take(c, at);
        connection_flush(c);
    }
    if (rate > 0) {
        uint64_t due = began + (uint64_t)((double)d->consumed / rate * 1e9), now = now_ns();
        if (due > now) {
            struct timespec pause = {(time_t)((due - now) / 1000000000u), (long)((due - now) % 1000000000u)};
            nanosleep(&pause, NULL);
        }
    }
}

static bool is_running(const Drain *d) {
    for (int i = 0; i < d->queue_count; i++)
        if (!d->queues[i].is_done) return true;
    return false;
}

void run_consume(Options *options) {
    static Drain d;
    const char *host = option_text(options, "host", "127.0.0.1");
    int port = (int)option_number(options, "port", 10911);
    d.topic = option_text(options, "topic", NULL);
    d.group = option_text(options, "group", "benchmark_consumer");
    d.queue_count = (int)option_number(options, "queues", 8);
    d.connection_count = (int)option_number(options, "connections", 1);
    d.batch = (int)option_number(options, "batch", 32);
    d.is_json = strcmp(option_text(options, "header", "binary"), "json") == 0;
    double rate = option_number(options, "rate", 0), seconds = option_number(options, "seconds", 0);
    double limit = option_number(options, "count", 0);
    char *from = strdup(option_text(options, "from", "0"));  // first offset of each queue: 5,7,…
    options_done(options);
    d.limit = limit > 0 ? (uint64_t)limit : UINT64_MAX;
    d.queues = calloc((size_t)d.queue_count, sizeof *d.queues);
    d.pulled_ns = calloc((size_t)d.queue_count, sizeof *d.pulled_ns);
    d.connections = calloc((size_t)d.connection_count, sizeof *d.connections);
    d.polled = calloc((size_t)d.connection_count, sizeof *d.polled);
    read_offsets(&d, from);
    for (int i = 0; i < d.connection_count; i++) {
        connection_open(&d.connections[i], host, port);
        d.polled[i].fd = d.connections[i].fd;
    }

    say("begin");
    uint64_t began = now_ns(), client = cpu_ns(), end = seconds > 0 ? began + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    for (int i = 0; i < d.queue_count; i++) pull(&d, i);
    for (int i = 0; i < d.connection_count; i++) connection_flush(&d.connections[i]);
    while (is_running(&d) && now_ns() < end) turn(&d, rate, began);
    double took_s = (double)(now_ns() - began) / 1e9;
    client = cpu_ns() - client;
    say("end");
    printf("{\"rate\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"client_us\":%.3f,\"measured\":%" PRIu64 ","
           "\"seconds\":%.3f,\"pulls\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"bad\":%" PRIu64 "}\n",
           (double)d.consumed / took_s, latencies_us(&d.latencies, 0.5), latencies_us(&d.latencies, 0.99),
           (double)d.latencies.max / 1e3, d.consumed > 0 ? (double)client / 1e3 / (double)d.consumed : 0, d.consumed,
           took_s, d.pulls, d.bytes, d.bad);
}
