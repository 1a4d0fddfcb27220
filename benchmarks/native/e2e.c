// Open loop: message n is due at start + n / rate, whatever the broker does; its latency counts from then.  So a pause
// of the broker is charged to every message that was due meanwhile.  Producer and consumer have a connection each and
// share this one thread: both wait in one poll.
#define _GNU_SOURCE
#include "e2e.h"
#include "modes.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { DIGITS = 16 };  // a body begins with its number in hexadecimal

void e2e_complain(E2E *e, const char *what, const uint8_t *bytes, size_t size) {
    if (e->bad++ == 0) fprintf(stderr, "loadtool: %s: %s: %.*s\n", e->protocol->name, what, (int)(size < 400 ? size : 400), bytes);
}

void e2e_acked(E2E *e, uint64_t number) {
    e->acked++;
    if (number < e->sent && number >= e->warm) latencies_add(&e->acks, now_ns() - e->intended_ns[number]);
}

void e2e_delivered(E2E *e, int queue, const uint8_t *body, size_t size) {
    char digits[DIGITS + 1] = {0};
    if (size < DIGITS) {
        e2e_complain(e, "a delivery without a number", body, size);
        return;
    }
    memcpy(digits, body, DIGITS);
    uint64_t number = strtoull(digits, NULL, 16);
    if (size != e->body_size || number >= e->sent) {
        e2e_complain(e, "a delivery that nobody sent", body, size);
        return;
    }
    e->delivered++;
    if (e->seen[number] < 255) e->seen[number]++;
    if (e->seen[number] > 1) e->duplicates++;
    else if (number >= e->warm) latencies_add(&e->latencies, now_ns() - e->intended_ns[number]);
    if ((int64_t)number < e->last[queue]) e->out_of_order++;
    else e->last[queue] = (int64_t)number;
}

void e2e_wait(Connection *c) {
    struct pollfd polled = {.fd = c->fd, .events = POLLIN};
    connection_flush(c);
    if (poll(&polled, 1, 10000) != 1 || !connection_fill(c)) die("no answer within 10 s during set-up");
}

static void publish_due(E2E *e, uint64_t start, double interval_ns) {
    uint8_t body[1 << 16];
    memset(body, 'x', e->body_size);
    uint64_t now = now_ns();
    for (int i = 0; i < 256 && e->sent < e->count; i++) {
        uint64_t due = start + (uint64_t)((double)e->sent * interval_ns);
        if (due > now) break;
        char digits[DIGITS + 1];
        snprintf(digits, sizeof digits, "%016" PRIx64, e->sent);
        memcpy(body, digits, DIGITS);
        e->intended_ns[e->sent] = due;
        e->protocol->publish(e, e->sent, body);
        e->sent++;
    }
    connection_flush(&e->producer);
}

static void turn(E2E *e, uint64_t wake_ns) {
    struct pollfd polled[2] = {
        {.fd = e->producer.fd, .events = POLLIN | (connection_waits(&e->producer) ? POLLOUT : 0)},
        {.fd = e->consumer.fd, .events = POLLIN | (connection_waits(&e->consumer) ? POLLOUT : 0)},
    };
    uint64_t now = now_ns(), pause = wake_ns > now ? wake_ns - now : 0;
    struct timespec limit = {(time_t)(pause / 1000000000u), (long)(pause % 1000000000u)};
    if (ppoll(polled, 2, &limit, NULL) < 0 && errno != EINTR) die("poll: %s", strerror(errno));
    if (polled[1].revents & (POLLIN | POLLHUP | POLLERR) && connection_fill(&e->consumer))
        connection_take(&e->consumer, e->protocol->read_deliveries(e));
    connection_flush(&e->consumer);
    if (polled[0].revents & (POLLIN | POLLHUP | POLLERR) && connection_fill(&e->producer))
        connection_take(&e->producer, e->protocol->read_acks(e));
    connection_flush(&e->producer);
}

static const Protocol *protocol_of(const char *name) {
    const Protocol *known[] = {&ROCKETMQ, &REDIS, &NATS};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i]->name, name) == 0) return known[i];
    die("no protocol %s; there are rocketmq, redis, nats", name);
}

void run_e2e(Options *options) {
    static E2E e;
    e.protocol = protocol_of(option_text(options, "protocol", "rocketmq"));
    e.host = option_text(options, "host", "127.0.0.1");
    e.port = (int)option_number(options, "port", e.protocol->default_port);
    e.topic = option_text(options, "topic", NULL);
    e.group = option_text(options, "group", "benchmark_consumer");
    e.queues = (int)option_number(options, "queues", 4);
    e.body_size = (size_t)option_number(options, "body", 128);
    e.is_json = strcmp(option_text(options, "header", "binary"), "json") == 0;
    double rate = option_number(options, "rate", 5000);
    double seconds = option_number(options, "seconds", 10), warm_s = option_number(options, "warm", 2);
    options_done(options);
    if (e.body_size < DIGITS || e.body_size > 1 << 16) die("--body: %d to %d bytes", DIGITS, 1 << 16);
    e.warm = (uint64_t)(rate * warm_s);
    e.count = e.warm + (uint64_t)(rate * seconds);
    e.seen = calloc(e.count, 1);
    e.intended_ns = calloc(e.count, sizeof *e.intended_ns);
    e.last = calloc((size_t)e.queues, sizeof *e.last);
    e.offsets = calloc((size_t)e.queues, sizeof *e.offsets);
    for (int i = 0; i < e.queues; i++) e.last[i] = -1;
    prctl(PR_SET_TIMERSLACK, 1000);  // wake within 1 µs of what was asked for, not 50
    connection_open(&e.producer, e.host, e.port);
    connection_open(&e.consumer, e.host, e.port);
    e.protocol->set_up(&e);

    double interval_ns = 1e9 / rate;
    uint64_t start = now_ns() + 10000000u, late = 0, client = 0, began = 0;
    while (e.delivered - e.duplicates < e.count || e.acked + e.refused < e.count) {
        publish_due(&e, start, interval_ns);
        if (began == 0 && e.sent >= e.warm) began = now_ns(), client = cpu_ns(), say("begin");
        if (e.sent == e.count && late == 0) late = now_ns() + 10000000000u;
        if (late != 0 && now_ns() > late) break;
        turn(&e, late != 0 ? late : start + (uint64_t)((double)e.sent * interval_ns));
    }
    client = cpu_ns() - client;
    say("end");  // only now: the broker has worked for all of them
    uint64_t lost = 0;
    for (uint64_t i = 0; i < e.count; i++) lost += e.seen[i] == 0;
    const Latencies *l = &e.latencies;
    printf("{\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"mean_us\":%.1f,"
           "\"ack_p50_us\":%.1f,\"ack_p99_us\":%.1f,\"client_us\":%.3f,\"measured\":%" PRIu64 ",\"sent\":%" PRIu64 ","
           "\"answered\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"duplicates\":%" PRIu64 ",\"out_of_order\":%" PRIu64 ",\"bad\":%" PRIu64 "}\n",
           latencies_us(l, 0.5), latencies_us(l, 0.9), latencies_us(l, 0.99), latencies_us(l, 0.999), (double)l->max / 1e3,
           l->count > 0 ? (double)l->sum / 1e3 / (double)l->count : 0, latencies_us(&e.acks, 0.5), latencies_us(&e.acks, 0.99),
           (double)client / 1e3 / (double)(e.count - e.warm), e.count - e.warm, e.sent, e.acked, lost, e.duplicates,
           e.out_of_order, e.bad + e.refused);
}
