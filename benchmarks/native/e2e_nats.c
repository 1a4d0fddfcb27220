// End to end over NATS JetStream: pipelined publishes with acknowledgement, a push consumer that acknowledges the
// last message of each read (and so all before it).
#define _GNU_SOURCE
#include "e2e.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// MSG <subject> <sid> [reply] <size>, then the payload
typedef struct { char subject[128], reply[256]; const uint8_t *payload; size_t size, end; } Message;

// Reads the next message from `at` on; answers pings and skips the server's other lines.  False: not all has come.
static bool message_read(E2E *e, Connection *c, size_t *at, Message *message) {
    for (;;) {
        const uint8_t *start = c->in + *at, *end = c->in + c->in_size;
        const uint8_t *line = *at < c->in_size ? memmem(start, (size_t)(end - start), "\r\n", 2) : NULL;
        if (line == NULL) return false;
        size_t length = (size_t)(line - start), after = (size_t)(line + 2 - c->in);
        if (length < 4 || memcmp(start, "MSG ", 4) != 0) {
            if (length == 4 && memcmp(start, "PING", 4) == 0) connection_put(c, "PONG\r\n", 6);
            if (*start == '-') e2e_complain(e, "the server says", start, length);
            *at = after;
            continue;
        }
        char text[600] = {0}, fourth[256] = {0}, third[256] = {0};
        if (length >= sizeof text) die("a line of %zu bytes", length);
        memcpy(text, start, length);
        int words = sscanf(text, "MSG %127s %*s %255s %255s", message->subject, third, fourth);
        message->size = strtoul(words == 3 ? fourth : third, NULL, 10);
        strcpy(message->reply, words == 3 ? third : "");
        message->payload = c->in + after;
        message->end = after + message->size + 2;
        return message->end <= c->in_size;
    }
}

static void ask(E2E *e, Connection *c, const char *subject, const char *body, const char *must_not_hold) {
    connection_print(c, "PUB %s _INBOX.setup.0 %zu\r\n%s\r\n", subject, strlen(body), body);
    size_t at = 0;
    Message message;
    while (!message_read(e, c, &at, &message)) e2e_wait(c);
    if (memmem(message.payload, message.size, must_not_hold, strlen(must_not_hold)) != NULL)
        die("%s: %.*s", subject, (int)message.size, message.payload);
    connection_take(c, message.end);
}

static void set_up(E2E *e) {
    const char *hello = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":false,\"lang\":\"c\",\"version\":\"1\",\"protocol\":0}\r\n";
    connection_print(&e->producer, "%sSUB _INBOX.acks.* 1\r\nSUB _INBOX.setup.* 2\r\n", hello);
    connection_print(&e->consumer, "%sSUB deliver.%s 1\r\nSUB _INBOX.setup.* 2\r\n", hello, e->topic);
    char subject[256], body[512];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.%s", e->topic);
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"subjects\":[\"%s.in\"],\"storage\":\"file\",\"retention\":\"limits\",\"num_replicas\":1}",
             e->topic, e->topic);
    ask(e, &e->producer, subject, body, "\"error\"");
    connection_take(&e->consumer, e->consumer.in_size);
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DURABLE.CREATE.%s.%s", e->topic, e->group);
    snprintf(body, sizeof body, "{\"stream_name\":\"%s\",\"config\":{\"durable_name\":\"%s\",\"deliver_subject\":\"deliver.%s\","
             "\"deliver_policy\":\"all\",\"ack_policy\":\"all\",\"max_ack_pending\":1000000}}", e->topic, e->group, e->topic);
    ask(e, &e->consumer, subject, body, "\"error\"");
    connection_print(&e->producer, "UNSUB 2\r\n");  // what the consumer asks is nothing to it
    connection_flush(&e->producer);
}

static void publish(E2E *e, uint64_t number, const uint8_t *body) {
    connection_print(&e->producer, "PUB %s.in _INBOX.acks.%" PRIu64 " %zu\r\n", e->topic, number, e->body_size);
    connection_put(&e->producer, body, e->body_size);
    connection_put(&e->producer, "\r\n", 2);
}

static size_t read_acks(E2E *e) {
    size_t at = 0;
    Message message;
    for (; message_read(e, &e->producer, &at, &message); at = message.end) {
        if (strncmp(message.subject, "_INBOX.acks.", 12) != 0) continue;
        if (memmem(message.payload, message.size, "\"seq\":", 6) != NULL) {
            e2e_acked(e, strtoull(message.subject + 12, NULL, 10));
        } else {
            e->refused++;
            e2e_complain(e, "a publish was refused", message.payload, message.size);
        }
    }
    return at;
}

static size_t read_deliveries(E2E *e) {
    size_t at = 0;
    Message message;
    char reply[256] = "";
    for (; message_read(e, &e->consumer, &at, &message); at = message.end) {
        if (strncmp(message.subject, "_INBOX.", 7) == 0) continue;
        e2e_delivered(e, 0, message.payload, message.size);
        strcpy(reply, message.reply);
    }
    if (*reply != '\0') connection_print(&e->consumer, "PUB %s 4\r\n+ACK\r\n", reply);
    return at;
}

const Protocol NATS = {"nats", 4222, set_up, publish, read_acks, read_deliveries};
