import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send, and where the messages end up. */
class Sending {
    static void register() {
        Suite.scenario("sync-send", Sending::sync);
        Suite.scenario("async-send", Sending::async);
        Suite.scenario("one-way-send", Sending::oneWay);
        Suite.scenario("send-to-a-chosen-queue", Sending::chosenQueue);
        Suite.scenario("batch-send", Sending::batch);
        Suite.scenario("auto-batch", Sending::autoBatch);
        Suite.scenario("auto-created-topic", Sending::autoCreated);
        Suite.scenario("vip-port", Sending::vip);
        Suite.scenario("queue-out-of-range", Sending::badQueue);
        Suite.scenario("topic-permissions", Sending::permissions);
        Suite.scenario("growing-topic", Sending::growing);
        Suite.scenario("namespace", Sending::namespace);
        Suite.scenario("trace", Sending::trace);
        Suite.scenario("first-name-server-is-dead", Sending::deadNameServer);
        Suite.binary("binary-header-sync-send", Sending::sync);
        Suite.binary("binary-header-async-send", Sending::async);
        Suite.binary("binary-header-one-way-send", Sending::oneWay);
        Suite.binary("binary-header-batch-send", Sending::batch);
    }

    static void sync(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = kit.producer();
        long start = System.currentTimeMillis();
        Map<String, SendResult> results = new HashMap<>();
        for (String body : Kit.numbered("s", 80)) {
            Message m = Kit.message(topic, "TagA", body);
            m.setKeys("key-" + body);
            m.setFlag(body.hashCode());
            m.putUserProperty("number", body.substring(1));
            results.put(body, Kit.sent(producer.send(m)));
        }
        sink.expect(results.keySet());
        Set<Integer> queues = new HashSet<>();
        for (MessageExt m : sink.got) {
            SendResult r = results.get(Kit.body(m));
            Kit.equal(r.getMsgId(), m.getMsgId(), "message id");
            Kit.equal(r.getOffsetMsgId(), ((MessageClientExt) m).getOffsetMsgId(), "offset message id");
            Kit.equal(r.getMessageQueue().getQueueId(), m.getQueueId(), "queue");
            Kit.equal(r.getQueueOffset(), m.getQueueOffset(), "queue offset");
            Kit.equal(Kit.brokerName, m.getBrokerName(), "broker name");
            Kit.equal(topic, m.getTopic(), "topic");
            Kit.equal("TagA", m.getTags(), "tags");
            Kit.equal("key-" + Kit.body(m), m.getKeys(), "keys");
            Kit.equal(Kit.body(m).hashCode(), m.getFlag(), "flag");
            Kit.equal(0, m.getReconsumeTimes(), "reconsume times");
            Kit.property(m, "number", Kit.body(m).substring(1));
            Kit.property(m, "CLUSTER", Kit.cluster);
            Kit.check(m.getBornTimestamp() >= start && m.getStoreTimestamp() >= m.getBornTimestamp() - 2000, "times");
            Kit.check(m.getCommitLogOffset() >= 0 && m.getStoreSize() > m.getBody().length, "position or size");
            String host = ((InetSocketAddress) m.getStoreHost()).getAddress().getHostAddress();
            Kit.equal(Kit.brokerAddress, host + ":" + ((InetSocketAddress) m.getStoreHost()).getPort(), "store host");
            Kit.check(((InetSocketAddress) m.getBornHost()).getPort() > 0, "born host");
            queues.add(m.getQueueId());
        }
        Kit.equal(4, queues.size(), "the number of queues in use");
    }

    static void async(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = kit.producer();
        Set<String> ids = ConcurrentHashMap.newKeySet();
        List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
        List<String> bodies = Kit.numbered("a", 300);
        CountDownLatch open = new CountDownLatch(bodies.size());
        for (String body : bodies)
            producer.send(Kit.message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getMsgId());
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    errors.add(e);
                    open.countDown();
                }
            });
        Kit.check(open.await(30, TimeUnit.SECONDS), open.getCount() + " callbacks did not come");
        Kit.check(errors.isEmpty(), "errors " + Kit.brief(errors));
        Kit.equal(bodies.size(), ids.size(), "the number of message ids");
        sink.expect(bodies);
    }

    static void oneWay(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = kit.producer();
        List<String> bodies = Kit.numbered("o", 100);
        for (String body : bodies) producer.sendOneway(Kit.message(topic, body));
        sink.expect(bodies);
    }

    static void chosenQueue(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        Kit.equal(4, producer.fetchPublishMessageQueues(topic).size(), "the number of write queues");
        for (int i = 0; i < 10; i++) {
            SendResult direct = Kit.sent(producer.send(Kit.message(topic, "direct" + i), Kit.queue(topic, 2)));
            Kit.equal(2, direct.getMessageQueue().getQueueId(), "queue");
            Kit.equal(i, direct.getQueueOffset(), "offset");
            SendResult selected = Kit.sent(producer.send(Kit.message(topic, "selected" + i),
                (queues, message, argument) -> queues.get((Integer) argument % queues.size()), 7));
            Kit.equal(3, selected.getMessageQueue().getQueueId(), "selected queue");
            Kit.equal(i, selected.getQueueOffset(), "offset in the selected queue");
        }
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        List<MessageExt> found = Kit.all(puller, Kit.queue(topic, 2), 10);
        for (int i = 0; i < 10; i++) Kit.equal("direct" + i, Kit.body(found.get(i)), "message " + i);
        Kit.equal(0, puller.maxOffset(Kit.queue(topic, 0)), "the end of a queue without messages");
    }

    static void batch(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink all = kit.sink(kit.group("all"), topic);
        Kit.Sink odd = kit.new Sink(kit.group("odd")).start(topic, "odd");
        DefaultMQProducer producer = kit.producer();
        List<Message> batch = new ArrayList<>();
        List<String> odds = new ArrayList<>(), bodies = Kit.numbered("b", 50);
        for (int i = 0; i < bodies.size(); i++) {
            Message m = Kit.message(topic, i % 2 == 1 ? "odd" : "even", bodies.get(i));
            m.setKeys("batch-" + i);
            m.putUserProperty("index", "" + i);
            m.setFlag(i);
            batch.add(m);
            if (i % 2 == 1) odds.add(bodies.get(i));
        }
        SendResult result = Kit.sent(producer.send(batch, Kit.queue(topic, 1)));
        Kit.equal(0, result.getQueueOffset(), "the first offset");
        List<String> ids = Arrays.asList(result.getMsgId().split(",")), offsetIds = Arrays.asList(result.getOffsetMsgId().split(","));
        Kit.equal(50, ids.size(), "the number of ids");
        Kit.equal(50, new HashSet<>(offsetIds).size(), "the number of offset ids");
        all.expect(bodies);
        odd.expect(odds);
        for (MessageExt m : all.got) {
            int i = Integer.parseInt(m.getProperty("index"));
            Kit.equal(bodies.get(i), Kit.body(m), "body");
            Kit.equal(i, m.getQueueOffset(), "offset");
            Kit.equal(i, m.getFlag(), "flag");
            Kit.equal("batch-" + i, m.getKeys(), "keys");
            Kit.equal(ids.get(i), m.getMsgId(), "id");
            Kit.equal(offsetIds.get(i), ((MessageClientExt) m).getOffsetMsgId(), "offset id");
        }
        Kit.equal(50, Kit.sent(producer.send(Kit.message(topic, "next"), Kit.queue(topic, 1))).getQueueOffset(), "the next offset");
        producer.setMaxMessageSize(16 << 20);
        producer.setRetryTimesWhenSendFailed(0);
        List<Message> large = new ArrayList<>();
        for (int i = 0; i < 12; i++) large.add(new Message(topic, new byte[1 << 20]));
        Exception refused = Kit.refused(Exception.class, "a batch of 12 MiB", () -> producer.send(large));
        if (Kit.isOurs) Kit.check(String.valueOf(refused).contains("CODE: 13"), "a batch of 12 MiB was refused by " + refused);
    }

    static void autoBatch(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = kit.producer(p -> {
            p.setAutoBatch(true);
            p.batchMaxDelayMs(50);
        });
        List<String> bodies = Kit.numbered("x", 100);
        CountDownLatch open = new CountDownLatch(bodies.size());
        for (String body : bodies)
            producer.send(Kit.message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) { }
            });
        Kit.check(open.await(30, TimeUnit.SECONDS), open.getCount() + " callbacks did not come");
        sink.expect(bodies);
    }

    static void autoCreated(Kit kit) throws Exception {
        String topic = kit.name("unheard-of");
        List<String> bodies = Kit.numbered("n", 12);
        DefaultMQProducer producer = kit.producer();
        Kit.send(producer, topic, bodies);
        Kit.await(20, "its route", () -> Kit.admin.examineTopicRouteInfo(topic).getQueueDatas().get(0).getWriteQueueNums() == 4);
        Kit.equal(6, Kit.admin.examineTopicRouteInfo(topic).getQueueDatas().get(0).getPerm(), "permission");
        kit.sink(kit.group("g"), topic).expect(bodies);
        Kit.await(20, "four queues for the producer", () -> producer.fetchPublishMessageQueues(topic).size() == 4);
    }

    static void vip(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.new Sink(kit.group("g"));
        sink.consumer.setVipChannelEnabled(true);
        sink.start(topic, "*");
        DefaultMQProducer producer = kit.producer(p -> p.setVipChannelEnabled(true));
        List<String> bodies = Kit.numbered("v", 20);
        Kit.send(producer, topic, bodies);
        sink.expect(bodies);
        Kit.check(producer.maxOffset(Kit.queue(topic, 0)) > 0, "the end of a queue, asked for at the VIP port");
    }

    static void badQueue(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        MQBrokerException e = Kit.refused(MQBrokerException.class, "a send to queue 99",
            () -> producer.send(Kit.message(topic, "lost"), Kit.queue(topic, 99)));
        Kit.check(e.getResponseCode() == 29 || e.getResponseCode() == 1, "code " + e.getResponseCode());
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        e = Kit.refused(MQBrokerException.class, "a pull of queue 99", () -> puller.pull(Kit.queue(topic, 99), "*", 0, 1));
        Kit.check(e.getResponseCode() == 29 || e.getResponseCode() == 1, "code " + e.getResponseCode() + " of a pull");
    }

    static void permissions(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        Kit.sent(producer.send(Kit.message(topic, "before"), Kit.queue(topic, 0)));
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        Kit.equal(1, Kit.all(puller, Kit.queue(topic, 0), 1).size(), "the number of messages");
        Kit.alter(topic, 4, 4);
        DefaultMQProducer late = kit.producer(p -> p.setRetryTimesWhenSendFailed(0));
        Kit.await(20, "the route", () -> Kit.admin.examineTopicRouteInfo(topic).getQueueDatas().get(0).getPerm() == 4);
        Kit.refused(MQClientException.class, "a send to a read-only topic", () -> late.send(Kit.message(topic, "meanwhile")));
        Kit.equal(1, puller.pull(Kit.queue(topic, 0), "*", 0, 1).getMsgFoundList().size(), "the number of messages, read-only");
        Kit.alter(topic, 4, 2);
        Kit.sent(producer.send(Kit.message(topic, "after"), Kit.queue(topic, 0)));
        MQBrokerException e = Kit.refused(MQBrokerException.class, "a pull from a write-only topic", () -> puller.pull(Kit.queue(topic, 0), "*", 0, 1));
        Kit.equal(16, e.getResponseCode(), "the code of a pull");
    }

    static void growing(Kit kit) throws Exception {
        String topic = kit.topic("t", 2, 6);
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = kit.producer();
        List<String> bodies = Kit.numbered("two", 10);
        Kit.send(producer, topic, bodies);
        Kit.alter(topic, 6, 6);
        Kit.await(20, "six queues for the producer",
            () -> producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().get(topic).getMessageQueueList().size() == 6);
        List<String> more = Kit.numbered("six", 24);
        Kit.send(producer, topic, more);
        bodies.addAll(more);
        sink.expect(bodies);
        Kit.equal(6, sink.got.stream().map(MessageExt::getQueueId).distinct().count(), "the number of queues consumed");
    }

    @SuppressWarnings("deprecation")
    static void namespace(Kit kit) throws Exception {
        String topic = kit.name("t");
        Kit.alter("INST%" + topic, 2, 6);
        Kit.Sink sink = kit.new Sink(kit.group("g"));
        sink.consumer.setNamespace("INST");
        sink.start(topic, "*");
        DefaultMQProducer producer = kit.producer(p -> p.setNamespace("INST"));
        List<String> bodies = Kit.numbered("n", 10);
        Kit.send(producer, topic, bodies);
        sink.expect(bodies);
        Kit.equal(topic, sink.got.get(0).getTopic(), "the topic as the consumer sees it");
        Kit.check(Kit.admin.fetchAllTopicList().getTopicList().contains("%RETRY%INST%" + kit.group("g")), "no retry topic with the namespace");
    }

    static void trace(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer(p -> p.setEnableTrace(true));
        SendResult result = Kit.sent(producer.send(Kit.message(topic, "traced")));
        Kit.await(30, "a trace", () -> {
            List<MessageExt> found;
            try {
                found = Kit.admin.queryMessage("RMQ_SYS_TRACE_TOPIC", result.getMsgId(), 32, 0, Long.MAX_VALUE).getMessageList();
            } catch (MQClientException e) {
                return false;
            }
            return Kit.body(found.get(0)).startsWith("Pub") && Kit.body(found.get(0)).contains(topic);
        });
    }

    static void deadNameServer(Kit kit) throws Exception {
        String topic = kit.topic(), both = "127.0.0.1:1;" + Kit.nameServer;
        List<Kit.Sink> sinks = new ArrayList<>();
        Kit.await(60, "a consumer", () -> {  // a client asks one at random first, and fails to start when that is the dead one
            Kit.Sink sink = kit.new Sink(kit.group("g"));
            sink.consumer.setNamesrvAddr(both);
            return sinks.add(sink.start(topic, "*"));
        });
        DefaultMQProducer producer = kit.producer(p -> p.setNamesrvAddr(both));
        List<String> bodies = Kit.numbered("d", 10);
        for (String body : bodies) Kit.await(30, "a send", () -> Kit.sent(producer.send(Kit.message(topic, body))) != null);
        sinks.get(0).expect(bodies);
    }
}
