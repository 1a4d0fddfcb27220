import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Order by key, order of everything, and broadcast. */
class Ordering {
    static void register() {
        Suite.scenario("order-by-key", Ordering::byKey);
        Suite.scenario("global-order", Ordering::global);
        Suite.scenario("orderly-retry-then-dead-letter", Ordering::deadLetter);
        Suite.scenario("broadcast", Ordering::broadcast);
        Suite.binary("binary-header-order-by-key", Ordering::byKey);
    }

    /** What orderly consumers of one group saw, in the order they saw it; two at a time on a queue is noticed. */
    static class Record implements MessageListenerOrderly {
        final List<MessageExt> got = new CopyOnWriteArrayList<>();
        final Map<Integer, AtomicInteger> busy = new ConcurrentHashMap<>();
        final List<String> overlaps = new CopyOnWriteArrayList<>();
        final AtomicInteger suspensions = new AtomicInteger();
        String stumbling = "";

        @Override
        public ConsumeOrderlyStatus consumeMessage(List<MessageExt> messages, ConsumeOrderlyContext context) {
            AtomicInteger inside = busy.computeIfAbsent(context.getMessageQueue().getQueueId(), q -> new AtomicInteger());
            if (inside.incrementAndGet() > 1) overlaps.add(Kit.body(messages.get(0)));
            try {
                Thread.sleep(3);
                for (MessageExt m : messages) {
                    if (Kit.body(m).equals(stumbling) && suspensions.incrementAndGet() == 1) {
                        context.setSuspendCurrentQueueTimeMillis(300);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    got.add(m);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            } catch (InterruptedException e) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            } finally {
                inside.decrementAndGet();
            }
        }

        /** Bodies in order, each once: a queue that moves to another consumer may be read again from its last commit. */
        List<String> of(String prefix) {
            List<String> seen = new ArrayList<>();
            for (MessageExt m : got)
                if (Kit.body(m).startsWith(prefix) && !seen.contains(Kit.body(m))) seen.add(Kit.body(m));
            return seen;
        }
    }

    private static DefaultMQPushConsumer orderly(Kit kit, String group, String topic, Record record) throws Exception {
        DefaultMQPushConsumer consumer = kit.consumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(record);
        consumer.start();
        return consumer;
    }

    static void byKey(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Record record = new Record();
        record.stumbling = "d0009";
        orderly(kit, group, topic, record);
        DefaultMQProducer producer = kit.producer();
        String[] keys = {"a", "b", "c", "d", "e", "f"};
        for (int i = 0; i < 30; i++) {
            if (i == 10) orderly(kit, group, topic, record);  // another takes over some of the queues meanwhile
            for (String key : keys)
                Kit.sent(producer.send(Kit.message(topic, String.format("%s%04d", key, i)),
                    (queues, message, argument) -> queues.get(argument.hashCode() % queues.size()), key));
        }
        Kit.await(90, () -> record.got.size() + " of 180 messages", () -> {
            for (String key : keys) if (record.of(key).size() < 30) return false;
            return true;
        });
        for (String key : keys) Kit.equal(Kit.numbered(key, 30), record.of(key), "order of " + key);
        Kit.equal("[]", record.overlaps, "messages of a queue that two consumers had at once");
        Kit.check(record.suspensions.get() >= 2, "the suspended message came once only");
    }

    static void global(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6), group = kit.group("g");
        Record record = new Record();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) consumers.add(orderly(kit, group, topic, record));
        DefaultMQProducer producer = kit.producer();
        List<String> bodies = Kit.numbered("g", 60);
        Kit.send(producer, topic, bodies.subList(0, 30));
        Kit.await(60, () -> record.got.size() + " of 30 messages", () -> record.of("g").size() == 30);
        Thread.sleep(1500);  // commits are each second here
        consumers.sort((x, y) -> x.buildMQClientId().compareTo(y.buildMQClientId()));
        consumers.get(0).shutdown();  // it had the queue: the average allocation gives to the first
        Kit.send(producer, topic, bodies.subList(30, 60));
        Kit.await(90, () -> record.got.size() + " of 60 messages", () -> record.of("g").size() == 60);
        Kit.equal(bodies, record.of("g"), "order");
        Kit.equal("[]", record.overlaps, "messages that two consumers had at once");
    }

    /** An orderly consumer retries in place; past its limit the client itself sends the message to the retry topic. */
    static void deadLetter(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6), group = kit.group("g");
        kit.introduce(group, topic);
        AtomicInteger tries = new AtomicInteger();
        List<String> good = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = kit.consumer(group);
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (Kit.body(messages.get(0)).equals("bad")) {
                tries.incrementAndGet();
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            messages.forEach(m -> good.add(Kit.body(m)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = kit.producer();
        for (String body : new String[] {"one", "bad", "two"}) Kit.sent(producer.send(Kit.message(topic, body)));
        Kit.await(60, () -> "got " + good, () -> good.size() == 2);
        Kit.equal("[one, two]", good, "what was consumed");
        MessageExt dead = Retrying.dead(kit, group, 1).get(0);
        Kit.equal("bad", Kit.body(dead), "the dead letter");
        Kit.check(tries.get() >= 3, tries + " tries");
    }

    static void broadcast(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        List<Kit.Sink> sinks = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Kit.Sink sink = kit.new Sink(group);
            sink.consumer.setMessageModel(MessageModel.BROADCASTING);
            sinks.add(sink.start(topic, "*"));
        }
        Thread.sleep(2000);
        List<String> bodies = Kit.numbered("b", 40);
        Kit.send(kit.producer(), topic, bodies);
        for (Kit.Sink sink : sinks) sink.expect(bodies);
        List<Integer> queues = sinks.get(0).got.stream().map(MessageExt::getQueueId).distinct().sorted().collect(Collectors.toList());
        Kit.equal(4, queues.size(), "queues read by one member");
        Kit.equal(Collections.emptyMap(), Kit.admin.examineConsumeStats(group, topic).getOffsetTable().entrySet().stream()
            .filter(e -> e.getValue().getConsumerOffset() > 0).collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue)),
            "offsets at the broker");
    }
}
