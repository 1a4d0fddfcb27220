// End to end over RocketMQ's remoting: pipelined sends, one parked pull per queue.
#include "e2e.h"
#include "remoting.h"

enum { MAX_OFFSET = 30 };

static SendFrame frame;

static void set_up(E2E *e) {
    send_frame_make(&frame, e->is_json, e->topic, e->body_size);
    for (int queue = 0; queue < e->queues; queue++) {
        Request r = request_begin(&e->consumer, e->is_json, MAX_OFFSET, (uint32_t)queue);
        request_field(&r, "topic", e->topic);
        request_number(&r, "queueId", queue);
        request_end(&r, "", 0);
        Answer answer;
        do e2e_wait(&e->consumer);
        while (!answer_read(&e->consumer, 0, &answer));
        int64_t offset = answer_number(&answer, "offset");
        if (answer.code != 0 || offset < 0) die("no end of queue %d: code %d", queue, answer.code);
        e->offsets[queue] = (uint64_t)offset;
        connection_take(&e->consumer, answer.size);
    }
    for (int queue = 0; queue < e->queues; queue++)
        pull_put(&e->consumer, e->is_json, (uint32_t)queue, e->group, e->topic, (unsigned)queue, e->offsets[queue], 32, true);
    connection_flush(&e->consumer);
}

static void publish(E2E *e, uint64_t number, const uint8_t *body) {
    unsigned queue = (unsigned)(number % (unsigned)e->queues);
    uint8_t *at = send_frame_put(&frame, &e->producer, (uint32_t)(number % OPAQUES), queue, number);
    __builtin_memcpy(at, body, e->body_size);
}

static size_t read_acks(E2E *e) {
    size_t at = 0;
    Answer answer;
    for (; answer_read(&e->producer, at, &answer); at += answer.size) {
        if (answer.code == 0 && answer_number(&answer, "queueOffset") >= 0) {
            e2e_acked(e, answer.opaque);
        } else {
            e->refused++;
            e2e_complain(e, "a send was refused", answer.header, answer.header_size);
        }
    }
    return at;
}

static size_t read_deliveries(E2E *e) {
    size_t at = 0;
    Answer answer;
    for (; answer_read(&e->consumer, at, &answer); at += answer.size) {
        if (answer.opaque >= (uint32_t)e->queues) continue;  // a call of the broker
        int queue = (int)answer.opaque;
        if (answer.code != 0 && answer.code != 19 && answer.code != 20)
            e2e_complain(e, "a pull was refused", answer.header, answer.header_size);
        Record record;
        for (size_t i = 0; i < answer.body_size; i += record.size) {
            if (!record_read(answer.body + i, answer.body_size - i, &record)) {
                e2e_complain(e, "no record", answer.body + i, 0);
                break;
            }
            e2e_delivered(e, queue, record.body, record.body_size);
        }
        int64_t next = answer_number(&answer, "nextBeginOffset");
        if (next >= 0) e->offsets[queue] = (uint64_t)next;
        pull_put(&e->consumer, e->is_json, (uint32_t)queue, e->group, e->topic, (unsigned)queue, e->offsets[queue], 32, true);
    }
    return at;
}

const Protocol ROCKETMQ = {"rocketmq", 10911, set_up, publish, read_acks, read_deliveries};
