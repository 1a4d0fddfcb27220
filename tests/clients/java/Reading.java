import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for themselves: pull and lite pull; and long polling. */
class Reading {
    static void register() {
        Suite.scenario("pull", Reading::pull);
        Suite.scenario("long-polling", Reading::longPolling);
        Suite.scenario("lite-pull-subscribe", Reading::liteSubscribe);
        Suite.scenario("lite-pull-assign-and-seek", Reading::liteAssign);
        Suite.scenario("lite-pull-filters", Reading::liteFilters);
        Suite.scenario("backlog", Reading::backlog);
        Suite.binary("binary-header-pull", Reading::pull);
        Suite.binary("binary-header-lite-pull-subscribe", Reading::liteSubscribe);
    }

    static void pull(Kit kit) throws Exception {
        String topic = kit.topic();
        MessageQueue queue = Kit.queue(topic, 1);
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        Kit.equal(4, puller.fetchSubscribeMessageQueues(topic).size(), "the number of queues");
        PullResult r = puller.pull(queue, "*", 0, 32);
        Kit.equal(PullStatus.NO_NEW_MSG, r.getPullStatus(), "a pull of an empty queue");
        Kit.equal(-1, puller.earliestMsgStoreTime(queue), "the first time of an empty queue");
        DefaultMQProducer producer = kit.producer();
        long before = System.currentTimeMillis();
        for (int i = 0; i < 50; i++)
            Kit.sent(producer.send(Kit.message(topic, i % 10 == 5 ? "five" : "other", String.format("p%04d", i)), queue));
        Kit.equal(50, Kit.all(puller, queue, 50).size(), "the number of messages in all");
        Kit.equal(0, puller.minOffset(queue), "min offset");
        long earliest = puller.earliestMsgStoreTime(queue);
        Kit.check(earliest >= before - 1000 && earliest <= System.currentTimeMillis(), "earliest time " + earliest);
        r = puller.pull(queue, "*", 0, 32);
        Kit.equal(PullStatus.FOUND, r.getPullStatus(), "status");
        Kit.equal(32, r.getMsgFoundList().size(), "the number of messages");
        Kit.equal(32, r.getNextBeginOffset(), "the next offset");
        Kit.equal(50, r.getMaxOffset(), "max offset in the answer");
        Kit.equal(0, r.getMinOffset(), "min offset in the answer");
        Kit.equal("p0031", Kit.body(r.getMsgFoundList().get(31)), "the last message");
        Kit.equal(7, puller.pull(queue, "*", 10, 7).getMsgFoundList().size(), "the number of messages when 7 are asked for");
        List<String> fives = new ArrayList<>();
        for (long at = 0; at < 50; at = r.getNextBeginOffset()) {
            r = puller.pull(queue, "five || none", at, 32);
            Kit.check(r.getNextBeginOffset() > at, "no way on at " + at + ": " + r);
            if (r.getPullStatus() == PullStatus.FOUND) for (MessageExt m : r.getMsgFoundList()) fives.add(Kit.body(m));
        }
        Kit.equal("[p0005, p0015, p0025, p0035, p0045]", fives, "messages by tag");
        r = puller.pull(queue, "absent", 0, 32);
        Kit.equal(PullStatus.NO_MATCHED_MSG, r.getPullStatus(), "a pull by a tag that is not there");
        Kit.equal(50, r.getNextBeginOffset(), "the next offset after that");
        r = puller.pull(queue, "*", 50, 32);
        Kit.equal(PullStatus.NO_NEW_MSG, r.getPullStatus(), "a pull at the end");
        Kit.equal(50, r.getNextBeginOffset(), "the next offset at the end");
        r = puller.pull(queue, "*", 500, 32);
        Kit.equal(PullStatus.OFFSET_ILLEGAL, r.getPullStatus(), "a pull beyond the end");
        Kit.equal(50, r.getNextBeginOffset(), "the next offset beyond the end");
        r = puller.pull(Kit.queue(topic, 2), "*", 5, 32);
        Kit.equal(PullStatus.OFFSET_ILLEGAL, r.getPullStatus(), "a pull beyond the end of an empty queue");
        Kit.equal(0, r.getNextBeginOffset(), "the next offset of an empty queue");
    }

    static void longPolling(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6);
        MessageQueue queue = Kit.queue(topic, 0);
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        DefaultMQProducer producer = kit.producer();
        Kit.sent(producer.send(Kit.message(topic, "no", "first")));
        for (int i = 0; i < 3; i++) {
            long from = 1 + 2 * i;
            List<Long> came = Collections.synchronizedList(new ArrayList<>());
            Thread waiting = new Thread(() -> {
                try {
                    long at = from;
                    while (came.isEmpty()) {
                        PullResult r = puller.pullBlockIfNotFound(queue, "yes", at, 32);
                        at = r.getNextBeginOffset();
                        if (r.getPullStatus() == PullStatus.FOUND) came.add(System.currentTimeMillis());
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                }
            });
            waiting.start();
            Thread.sleep(700);
            Kit.sent(producer.send(Kit.message(topic, "no", "not this")));
            Thread.sleep(300);
            Kit.check(came.isEmpty(), "answered without a message");
            long sent = System.currentTimeMillis();
            Kit.sent(producer.send(Kit.message(topic, "yes", "this")));
            waiting.join(15000);
            Kit.check(!came.isEmpty(), "the message did not come");
            Kit.check(came.get(0) - sent < 1500, "it came " + (came.get(0) - sent) + " ms after it was sent");
        }
        long start = System.currentTimeMillis();
        puller.setBrokerSuspendMaxTimeMillis(3000);
        PullResult r = puller.pullBlockIfNotFound(queue, "*", puller.maxOffset(queue), 32);
        long took = System.currentTimeMillis() - start;
        Kit.equal(PullStatus.NO_NEW_MSG, r.getPullStatus(), "a pull that waits in vain");
        Kit.check(took > 2500 && took < 12000, "it waited " + took + " ms, not 3 to 8 s");
    }

    /** Poll until so many have come. */
    static List<String> poll(DefaultLitePullConsumer consumer, int count) throws Exception {
        List<String> got = new ArrayList<>();
        Kit.await(60, () -> "polled " + got.size() + " of " + count, () -> {
            for (MessageExt m : consumer.poll(500)) got.add(Kit.body(m));
            return got.size() >= count;
        });
        return got;
    }

    static void liteSubscribe(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        DefaultMQProducer producer = kit.producer();
        List<String> first = Kit.numbered("first", 60), second = Kit.numbered("second", 20);
        Kit.send(producer, topic, first);
        DefaultLitePullConsumer consumer = kit.lite(group);
        consumer.setPullBatchSize(20);
        consumer.setAutoCommit(false);
        consumer.subscribe(topic, "*");
        consumer.start();
        Kit.same(first, poll(consumer, 60));
        Kit.equal(4, consumer.assignment().size(), "the number of queues assigned");
        consumer.commit();
        for (MessageQueue queue : consumer.assignment())
            Kit.await(15, "the committed offset of queue " + queue.getQueueId(), () -> consumer.committed(queue) == producer.maxOffset(queue));
        consumer.shutdown();
        Kit.send(producer, topic, second);
        DefaultLitePullConsumer next = kit.lite(group);
        next.subscribe(topic, "*");
        next.start();
        Kit.same(second, poll(next, 20));
    }

    static void liteAssign(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        MessageQueue zero = Kit.queue(topic, 0), one = Kit.queue(topic, 1);
        for (int i = 0; i < 20; i++) {
            if (i == 10) Thread.sleep(300);
            Kit.sent(producer.send(Kit.message(topic, String.format("a%04d", i)), zero));
        }
        Kit.sent(producer.send(Kit.message(topic, "elsewhere"), one));
        DefaultLitePullConsumer consumer = kit.lite(kit.group("g"));
        consumer.setAutoCommit(false);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        Kit.equal(4, queues.size(), "the number of queues");
        consumer.assign(Collections.singleton(zero));
        List<String> all = Kit.numbered("a", 20);
        consumer.seek(zero, 12);
        Kit.equal(all.subList(12, 20), poll(consumer, 8), "after seek to 12");
        consumer.seekToBegin(zero);
        Kit.equal(all, poll(consumer, 20), "after seek to the beginning");
        DefaultMQPullConsumer puller = kit.puller(kit.group("other"));
        long time = Kit.all(puller, zero, 20).get(10).getStoreTimestamp();
        Kit.equal(10, consumer.offsetForTimestamp(zero, time), "the offset for a time");
        consumer.seekToEnd(zero);
        Kit.sent(producer.send(Kit.message(topic, "after the end"), zero));
        Kit.equal("[after the end]", poll(consumer, 1), "after seek to the end");
        consumer.pause(Collections.singleton(zero));
        Kit.sent(producer.send(Kit.message(topic, "while paused"), zero));
        List<String> late = new ArrayList<>();
        for (MessageExt m : consumer.poll(1000)) late.add(Kit.body(m));  // a pull that was parked before may bring it
        consumer.resume(Collections.singleton(zero));
        if (late.isEmpty()) late = poll(consumer, 1);
        Kit.equal("[while paused]", late, "after the pause");
        consumer.commitSync();
        Kit.await(10, "the commit", () -> consumer.committed(zero) == 22);
    }

    static void liteFilters(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        for (int i = 0; i < 12; i++) {
            org.apache.rocketmq.common.message.Message m = Kit.message(topic, i % 3 == 0 ? "third" : "rest", "f" + i);
            m.putUserProperty("i", "" + i);
            Kit.sent(producer.send(m));
        }
        DefaultLitePullConsumer byTag = kit.lite(kit.group("tag"));
        byTag.subscribe(topic, "third");
        byTag.start();
        DefaultLitePullConsumer bySql = kit.lite(kit.group("sql"));
        bySql.subscribe(topic, MessageSelector.bySql("i >= 9"));
        bySql.start();
        Kit.same(Arrays.asList("f0", "f3", "f6", "f9"), poll(byTag, 4));
        Kit.same(Arrays.asList("f9", "f10", "f11"), poll(bySql, 3));
    }

    static void backlog(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        List<String> bodies = Kit.numbered("k", 3000);
        for (int at = 0; at < bodies.size(); at += 100) {
            List<org.apache.rocketmq.common.message.Message> batch = new ArrayList<>();
            for (String body : bodies.subList(at, at + 100)) batch.add(Kit.message(topic, body));
            Kit.sent(producer.send(batch));
        }
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        Kit.await(60, () -> sink.got.size() + " of 3000", () -> sink.got.size() >= 3000);
        Thread.sleep(500);
        Set<String> different = new TreeSet<>(sink.bodies());
        Kit.equal(3000, different.size(), "the number of different messages");
        Kit.equal(3000, sink.got.size(), "the number of deliveries");
    }
}
