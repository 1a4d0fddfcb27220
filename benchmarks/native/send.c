// Pipelined single sends: each connection keeps `window` in flight; k answers read at once make k sends in one write.
#define _GNU_SOURCE
#include "modes.h"
#include "remoting.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint64_t sent_ns; uint32_t opaque; bool is_waiting; } Slot;
typedef struct { Connection connection; Slot *slots; uint32_t next, waiting; } Sender;

typedef struct {
    Sender *senders;
    struct pollfd *polled;
    int count, window, slot_count, queues;
    SendFrame frame;
    uint64_t sent, limit, answered, refused, bad;
    Latencies latencies;
} Load;

static void put_sends(Load *load, Sender *sender, int count, uint64_t now) {
    for (int i = 0; i < count && load->sent < load->limit; i++) {
        Slot *slot = &sender->slots[sender->next % (uint32_t)load->slot_count];
        if (slot->is_waiting) die("request %" PRIu32 " was overtaken by %d others", slot->opaque, load->slot_count);
        *slot = (Slot){now, sender->next, true};
        unsigned queue = (unsigned)(load->sent % (unsigned)load->queues);
        send_frame_put(&load->frame, &sender->connection, sender->next, queue, load->sent++);
        sender->next = (sender->next + 1) % OPAQUES;
        sender->waiting++;
    }
    connection_flush(&sender->connection);
}

static void complain(uint64_t *count, const Answer *answer, const char *what) {
    if ((*count)++ > 0) return;  // the first one tells
    const uint8_t *told = answer->is_json ? answer->header : answer->header + 17;  // else the remark
    uint32_t size = answer->is_json ? (uint32_t)answer->header_size : get32(answer->header + 13);
    if (size > answer->header_size) size = 0;
    fprintf(stderr, "loadtool: bad answer (%s): code %d: %.*s\n", what, answer->code, (int)size, told);
}

static int read_answers(Load *load, Sender *sender) {
    size_t at = 0;
    int count = 0;
    Answer answer;
    uint64_t now = now_ns();
    for (; answer_read(&sender->connection, at, &answer); at += answer.size) {
        Slot *slot = &sender->slots[answer.opaque % (uint32_t)load->slot_count];
        if (!slot->is_waiting || slot->opaque != answer.opaque) {
            complain(&load->bad, &answer, "nobody asked");
            continue;
        }
        slot->is_waiting = false;
        sender->waiting--;
        count++;
        if (answer.code != 0) complain(&load->refused, &answer, "refused");
        else if (answer_number(&answer, "queueOffset") < 0) complain(&load->bad, &answer, "no queueOffset");
        else load->answered++, latencies_add(&load->latencies, now - slot->sent_ns);
    }
    connection_take(&sender->connection, at);
    return count;
}

// Serves every connection once.  With `again`, what was answered is replaced by new sends.
static void turn(Load *load, bool again) {
    for (int i = 0; i < load->count; i++)
        load->polled[i].events = POLLIN | (connection_waits(&load->senders[i].connection) ? POLLOUT : 0);
    if (poll(load->polled, (nfds_t)load->count, 100) < 0 && errno != EINTR) die("poll: %s", strerror(errno));
    for (int i = 0; i < load->count; i++) {
        Sender *sender = &load->senders[i];
        if (load->polled[i].revents & POLLOUT) connection_flush(&sender->connection);
        if (!(load->polled[i].revents & (POLLIN | POLLHUP | POLLERR)) || !connection_fill(&sender->connection)) continue;
        int count = read_answers(load, sender);
        if (again && count > 0) put_sends(load, sender, count, now_ns());
    }
}

static uint64_t in_flight(const Load *load) {
    uint64_t count = 0;
    for (int i = 0; i < load->count; i++) count += load->senders[i].waiting;
    return count;
}

static void open_senders(Load *load, const char *host, int port) {
    load->senders = calloc((size_t)load->count, sizeof *load->senders);
    load->polled = calloc((size_t)load->count, sizeof *load->polled);
    load->slot_count = 16 * load->window;  // answers may come out of order, but not by more than this
    for (int i = 0; i < load->count; i++) {
        connection_open(&load->senders[i].connection, host, port);
        load->senders[i].slots = calloc((size_t)load->slot_count, sizeof(Slot));
        load->polled[i].fd = load->senders[i].connection.fd;
    }
}

void run_send(Options *options) {
    static Load load;
    const char *host = option_text(options, "host", "127.0.0.1");
    int port = (int)option_number(options, "port", 10911);
    load.count = (int)option_number(options, "connections", 4);
    load.window = (int)option_number(options, "window", 64);
    load.queues = (int)option_number(options, "queues", 8);
    double seconds = option_number(options, "seconds", 10), warm_s = option_number(options, "warm", 2);
    double drain_s = option_number(options, "drain", 10);  // how long answers may come late
    double limit = option_number(options, "count", 0);  // with it, sends exactly so many and ignores the seconds
    size_t body_size = (size_t)option_number(options, "body", 128);
    bool is_json = strcmp(option_text(options, "header", "binary"), "json") == 0;
    send_frame_make(&load.frame, is_json, option_text(options, "topic", NULL), body_size);
    options_done(options);
    load.limit = limit > 0 ? (uint64_t)limit : UINT64_MAX;
    open_senders(&load, host, port);

    for (int i = 0; i < load.count; i++) put_sends(&load, &load.senders[i], load.window, now_ns());
    if (limit <= 0)
        for (uint64_t end = now_ns() + (uint64_t)(warm_s * 1e9); now_ns() < end;) turn(&load, true);
    uint64_t warmed = load.answered;
    load.latencies = (Latencies){0};
    say("begin");
    uint64_t began = now_ns(), client = cpu_ns(), end = began + (uint64_t)(seconds * 1e9);
    while (limit > 0 ? in_flight(&load) > 0 : now_ns() < end) turn(&load, true);
    double took_s = (double)(now_ns() - began) / 1e9;
    client = cpu_ns() - client;
    say("end");
    double measured = (double)(load.answered - warmed);
    Latencies latencies = load.latencies;
    for (uint64_t late = now_ns() + (uint64_t)(drain_s * 1e9); in_flight(&load) > 0 && now_ns() < late;) turn(&load, false);

    printf("{\"rate\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"client_us\":%.3f,\"measured\":%.0f,"
           "\"seconds\":%.3f,\"sent\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"unanswered\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"bad\":%" PRIu64 "}\n",
           measured / took_s, latencies_us(&latencies, 0.5), latencies_us(&latencies, 0.99), (double)latencies.max / 1e3,
           measured > 0 ? (double)client / 1e3 / measured : 0, measured, took_s, load.sent, load.answered,
           in_flight(&load), load.refused, load.bad);
}
