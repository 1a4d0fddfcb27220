import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that are given back: again after a while, and in the end to the dead letters. */
class Retrying {
    static void register() {
        Suite.scenario("first-retry-of-a-new-group", Retrying::newGroup);
        Suite.scenario("dead-letter", Retrying::deadLetter);
        Suite.scenario("rejected-for-good", Retrying::rejected);
        Suite.scenario("retry-then-success", Retrying::again);
        Suite.scenario("send-message-back", Retrying::sendBack);
        Suite.binary("binary-header-dead-letter", Retrying::deadLetter);
    }

    /** Wait for dead letters of a group. */
    static List<MessageExt> dead(Kit kit, String group, int count) throws Exception {
        MessageQueue queue = Kit.queue("%DLQ%" + group, 0);
        DefaultMQPullConsumer puller = kit.puller(kit.group("dlq"));
        Kit.await(60, count + " dead letters", () -> puller.maxOffset(queue) == count);
        return Kit.all(puller, queue, count);
    }

    /** The default back-off begins with 10 s; a client finds the retry topic late when the group is new. */
    static void newGroup(Kit kit) throws Exception {
        String topic = kit.topic();
        List<Long> times = new ArrayList<>();
        Kit.Sink sink = kit.new Sink(kit.group("g")).deciding(0, m -> {
            synchronized (times) {
                times.add(System.currentTimeMillis());
                return times.size() == 1 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        }).start(topic, "*");
        Kit.sent(kit.producer().send(Kit.message(topic, "again")));
        Kit.await(80, () -> times.size() + " deliveries", () -> times.size() == 2);
        long pause = times.get(1) - times.get(0);
        Kit.check(pause > 9000, "the second delivery came after " + pause + " ms");
        Kit.equal(1, sink.got.get(1).getReconsumeTimes(), "reconsume times");
    }

    static void again(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        kit.introduce(group, topic);
        Kit.Sink sink = kit.new Sink(group).deciding(1, m -> Kit.body(m).equals("good") || m.getReconsumeTimes() == 3
            ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER).start(topic, "TagR");
        DefaultMQProducer producer = kit.producer();
        Message m = Kit.message(topic, "TagR", "bad");
        m.setKeys("kept");
        m.putUserProperty("user", "kept too");
        m.setFlag(7);
        SendResult first = Kit.sent(producer.send(m));
        Kit.sent(producer.send(Kit.message(topic, "TagR", "good")));
        sink.expect(90, Arrays.asList("bad", "bad", "bad", "bad", "good"));
        int times = 0;
        for (MessageExt again : sink.got) {
            if (Kit.body(again).equals("good")) continue;
            Kit.equal(times, again.getReconsumeTimes(), "reconsume times");
            Kit.equal(topic, again.getTopic(), "topic");
            Kit.equal(first.getMsgId(), again.getMsgId(), "message id");
            Kit.equal("kept", again.getKeys(), "keys");
            Kit.equal("TagR", again.getTags(), "tags");
            Kit.equal(7, again.getFlag(), "flag");
            Kit.property(again, "user", "kept too");
            if (times > 0) {
                Kit.property(again, "ORIGIN_MESSAGE_ID", first.getOffsetMsgId());
                Kit.property(again, "RETRY_TOPIC", topic);
            }
            times++;
        }
    }

    static void deadLetter(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        kit.introduce(group, topic);
        Kit.Sink sink = kit.new Sink(group).deciding(1, m -> ConsumeConcurrentlyStatus.RECONSUME_LATER);
        sink.consumer.setMaxReconsumeTimes(1);
        sink.start(topic, "*");
        Message m = Kit.message(topic, "TagD", "poison");
        m.setKeys("dead-key");
        m.putUserProperty("user", "kept");
        long start = System.currentTimeMillis();
        SendResult first = Kit.sent(kit.producer().send(m));
        MessageExt letter = dead(kit, group, 1).get(0);
        Kit.equal(2, sink.got.size(), "deliveries");
        Kit.equal("poison", Kit.body(letter), "body");
        Kit.equal("dead-key", letter.getKeys(), "keys");
        Kit.equal("TagD", letter.getTags(), "tags");
        Kit.property(letter, "user", "kept");
        Kit.property(letter, "RETRY_TOPIC", topic);
        Kit.property(letter, "ORIGIN_MESSAGE_ID", first.getOffsetMsgId());
        if (!Kit.isOurs) return;
        Kit.property(letter, "DLQ_ORIGIN_TOPIC", topic);
        Kit.property(letter, "DLQ_ORIGIN_MESSAGE_ID", first.getOffsetMsgId());
        Kit.property(letter, "DLQ_REASON", "max_retry");
        Kit.property(letter, "DLQ_GROUP", group);
        Kit.property(letter, "DLQ_RETRY_COUNT", "1");
        Kit.property(letter, "DLQ_ORIGIN_QUEUE", first.getMessageQueue().getQueueId());
        Kit.property(letter, "DLQ_ORIGIN_OFFSET", first.getQueueOffset());
        Kit.property(letter, "DLQ_CONSUMER_ID", sink.consumer.buildMQClientId());
        long time = Long.parseLong(letter.getProperty("DLQ_TIME"));
        Kit.check(time >= start && time <= System.currentTimeMillis(), "DLQ_TIME is " + time);
    }

    /** Delay level -1: not again, to the dead letters at once. */
    static void rejected(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Kit.Sink sink = kit.new Sink(group).deciding(-1, m -> ConsumeConcurrentlyStatus.RECONSUME_LATER).start(topic, "*");
        SendResult first = Kit.sent(kit.producer().send(Kit.message(topic, "never")));
        MessageExt letter = dead(kit, group, 1).get(0);
        Kit.equal("never", Kit.body(letter), "body");
        Kit.equal(1, sink.got.size(), "deliveries");
        if (!Kit.isOurs) return;
        Kit.property(letter, "DLQ_ORIGIN_TOPIC", topic);
        Kit.property(letter, "DLQ_ORIGIN_MESSAGE_ID", first.getOffsetMsgId());
        Kit.property(letter, "DLQ_REASON", "consume_error");
    }

    static void sendBack(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6), group = kit.group("g");
        kit.introduce(group, topic);
        SendResult first = Kit.sent(kit.producer().send(Kit.message(topic, "pulled")));
        DefaultMQPullConsumer puller = kit.puller(group);
        MessageExt m = Kit.all(puller, Kit.queue(topic, 0), 1).get(0);
        puller.sendMessageBack(m, 1, Kit.brokerName);
        String retry = "%RETRY%" + group;
        MessageExt again = Kit.all(puller, Kit.queue(retry, 0), 1).get(0);
        Kit.equal("pulled", Kit.body(again), "body");
        Kit.equal(1, again.getReconsumeTimes(), "reconsume times");
        Kit.property(again, "ORIGIN_MESSAGE_ID", first.getOffsetMsgId());
    }
}
