import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where a group stands: first start, commits, offsets by time, resets. */
class Offsets {
    static void register() {
        Suite.scenario("reset-of-a-running-group", Offsets::resetRunning);
        Suite.scenario("reset-of-a-stopped-group", Offsets::resetStopped);
        Suite.scenario("commit-and-continue", Offsets::goOn);
        Suite.scenario("first-start-of-a-group", Offsets::firstStart);
        Suite.scenario("offset-by-time", Offsets::byTime);
        Suite.scenario("offset-of-a-pull-consumer", Offsets::stored);
        Suite.binary("binary-header-commit-and-continue", Offsets::goOn);
    }

    /** As RocketMQ: where a queue still begins at 0, a new group does so too, whatever it asks for. */
    static void firstStart(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        List<String> bodies = Kit.numbered("old", 12);
        Kit.send(producer, topic, bodies);
        List<Kit.Sink> sinks = new ArrayList<>();
        for (ConsumeFromWhere where : new ConsumeFromWhere[] {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}) {
            Kit.Sink sink = kit.new Sink(kit.group(where.name()));
            sink.consumer.setConsumeFromWhere(where);
            sink.consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis()));
            sinks.add(sink.start(topic, "*"));
        }
        for (Kit.Sink sink : sinks) sink.expect(bodies);
        List<String> more = Kit.numbered("new", 12);
        Kit.send(producer, topic, more);
        more.addAll(bodies);
        for (Kit.Sink sink : sinks) sink.expect(more);
    }

    static void goOn(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        DefaultMQProducer producer = kit.producer();
        Kit.send(producer, topic, Kit.numbered("one", 20));
        Kit.Sink first = kit.sink(group, topic);
        first.expect(Kit.numbered("one", 20));
        first.consumer.shutdown();  // it commits as it goes
        Kit.send(producer, topic, Kit.numbered("two", 20));
        Kit.Sink second = kit.sink(group, topic);
        second.expect(Kit.numbered("two", 20));
        Kit.await(20, "all committed", () -> Kit.admin.examineConsumeStats(group, topic).computeTotalDiff() == 0);
    }

    static void byTime(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6);
        MessageQueue queue = Kit.queue(topic, 0);
        DefaultMQProducer producer = kit.producer();
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        Kit.equal(0, puller.searchOffset(queue, System.currentTimeMillis()), "in an empty queue");
        long before = System.currentTimeMillis() - 1000;
        for (int i = 0; i < 30; i++) {
            Kit.sent(producer.send(Kit.message(topic, "t" + i)));
            if (i % 10 == 9) Thread.sleep(40);
        }
        List<MessageExt> all = Kit.all(puller, queue, 30);
        Kit.equal(0, puller.searchOffset(queue, before), "before the first");
        Kit.equal(30, puller.searchOffset(queue, System.currentTimeMillis() + 60000), "after the last");
        for (int i = 0; i < 30; i++) {
            long time = all.get(i).getStoreTimestamp();
            int wanted = i;
            while (wanted > 0 && all.get(wanted - 1).getStoreTimestamp() >= time) wanted--;
            Kit.equal(wanted, puller.searchOffset(queue, time), "for the time of message " + i);
        }
        long between = all.get(9).getStoreTimestamp() + 1;
        Kit.equal(10, puller.searchOffset(queue, between), "between two messages");
    }

    static void stored(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        MessageQueue queue = Kit.queue(topic, 3);
        DefaultMQProducer producer = kit.producer();
        for (int i = 0; i < 10; i++) Kit.sent(producer.send(Kit.message(topic, "x" + i), queue));
        DefaultMQPullConsumer puller = kit.puller(group);
        Kit.all(puller, queue, 10);
        for (long offset : new long[] {7, 10, 2}) {  // backwards as well
            puller.updateConsumeOffset(queue, offset);
            puller.getOffsetStore().persist(queue);
            DefaultMQPullConsumer other = kit.puller(group);
            Kit.await(10, "the stored offset " + offset, () -> other.fetchConsumeOffset(queue, true) == offset);
        }
    }

    static void resetRunning(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        DefaultMQProducer producer = kit.producer();
        Kit.Sink sink = kit.sink(group, topic);
        Kit.send(producer, topic, Kit.numbered("a", 12));
        sink.expect(Kit.numbered("a", 12));
        Thread.sleep(300);
        long middle = System.currentTimeMillis();
        Thread.sleep(300);
        Kit.send(producer, topic, Kit.numbered("b", 12));
        Kit.await(30, "all of it", () -> sink.got.size() == 24);
        Kit.await(20, "all committed", () -> Kit.admin.examineConsumeStats(group, topic).computeTotalDiff() == 0);
        sink.got.clear();
        Map<MessageQueue, Long> offsets = Kit.admin.resetOffsetByTimestamp(topic, group, middle, true);
        Kit.equal(4, offsets.size(), "the number of queues reset");
        sink.expect(Kit.numbered("b", 12));
        Kit.await(40, "all committed again", () -> Kit.admin.examineConsumeStats(group, topic).computeTotalDiff() == 0);
        Kit.send(producer, topic, Arrays.asList("c"));
        List<String> wanted = Kit.numbered("b", 12);
        wanted.add("c");
        sink.expect(wanted);
    }

    static void resetStopped(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        DefaultMQProducer producer = kit.producer();
        Kit.send(producer, topic, Kit.numbered("a", 12));
        Kit.Sink first = kit.sink(group, topic);
        first.expect(Kit.numbered("a", 12));
        first.consumer.shutdown();
        Kit.await(20, "nobody in the group", () -> {
            try {
                return Kit.admin.examineConsumerConnectionInfo(group).getConnectionSet().isEmpty();
            } catch (Exception e) {
                return String.valueOf(e).contains("206");
            }
        });
        Map<MessageQueue, Long> offsets = Kit.admin.resetOffsetByTimestamp(topic, group, 0, true);
        Kit.equal(4, offsets.size(), "the number of queues reset");
        Kit.Sink second = kit.sink(group, topic);
        second.expect(Kit.numbered("a", 12));
        second.consumer.shutdown();
        Kit.send(producer, topic, Kit.numbered("skipped", 12));
        Kit.admin.resetOffsetByTimestamp(topic, group, -1, true);  // to the end
        Kit.send(producer, topic, Kit.numbered("read", 4));
        kit.sink(group, topic).expect(Kit.numbered("read", 4));
    }
}
