import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario works with: fresh names, clients that end with it, and checks. */
class Kit implements AutoCloseable {
    static String nameServer;
    static DefaultMQAdminExt admin;
    static String cluster;
    static String brokerName;
    static String brokerAddress;
    static boolean isOurs;
    private static String run;

    private final String scenario;
    private final ConcurrentLinkedDeque<Runnable> ends = new ConcurrentLinkedDeque<>();

    Kit(String scenario) {
        this.scenario = scenario;
    }

    static void connect(String address, String runName, boolean ours) throws Exception {
        nameServer = address;
        run = runName;
        isOurs = ours;
        admin = new DefaultMQAdminExt(20000L);
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName(unique());
        admin.start();
        await(60, "a broker in the cluster table", () -> {
            ClusterInfo info = admin.examineBrokerClusterInfo();
            if (info.getBrokerAddrTable() == null || info.getBrokerAddrTable().isEmpty()) return false;
            BrokerData broker = info.getBrokerAddrTable().values().iterator().next();
            cluster = broker.getCluster();
            brokerName = broker.getBrokerName();
            brokerAddress = broker.selectBrokerAddr();
            return true;
        });
    }

    @Override
    public void close() {
        List<Runnable> all = new ArrayList<>(ends);
        new Thread(() -> {  // a client takes a while to say good-bye
            for (Runnable end : all)
                try {
                    end.run();
                } catch (RuntimeException e) {
                    e.printStackTrace();
                }
        }).start();
    }

    /** Have something run at the end of the scenario; the last registered first. */
    void atEnd(Runnable end) {
        ends.addFirst(end);
    }

    // -- names -----------------------------------------------------------------------------------

    static String unique() {
        return UUID.randomUUID().toString().substring(0, 13);
    }

    /** The name of a topic that nobody has created. */
    String name(String part) {
        return "java_" + scenario + "_" + part + "_" + run;
    }

    String group(String part) {
        return "GID_" + name(part);
    }

    String topic() throws Exception {
        return topic("t", 4, 6);
    }

    /** Create a topic: so many queues, 2 = writable + 4 = readable. */
    String topic(String part, int queues, int permission) throws Exception {
        String name = name(part);
        alter(name, queues, permission);
        await(20, "a route of " + name, () -> admin.examineTopicRouteInfo(name).getQueueDatas().size() == 1);
        return name;
    }

    static void alter(String topic, int queues, int permission) throws Exception {
        TopicConfig config = new TopicConfig(topic, queues, queues, permission);
        admin.createAndUpdateTopicConfig(brokerAddress, config);
    }

    static MessageQueue queue(String topic, int id) {
        return new MessageQueue(topic, brokerName, id);
    }

    // -- clients ---------------------------------------------------------------------------------

    DefaultMQProducer producer() throws Exception {
        return producer(p -> { });
    }

    DefaultMQProducer producer(Consumer<DefaultMQProducer> more) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("PID_" + scenario + "_" + unique());
        p.setNamesrvAddr(nameServer);
        p.setInstanceName(unique());
        p.setSendMsgTimeout(10000);
        p.setPollNameServerInterval(1000);
        more.accept(p);
        p.start();
        atEnd(p::shutdown);
        return p;
    }

    /** A push consumer, not started. */
    DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
        c.setNamesrvAddr(nameServer);
        c.setInstanceName(unique());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setPollNameServerInterval(1000);
        c.setPersistConsumerOffsetInterval(1000);
        c.setConsumeThreadMin(4);
        c.setConsumeThreadMax(4);
        atEnd(c::shutdown);
        return c;
    }

    /** A group that the broker knows, with its retry topic, so that a consumer's first look finds that. */
    void introduce(String group, String topic) throws Exception {
        DefaultMQPushConsumer c = consumer(group);
        c.subscribe(topic, "no such tag");
        c.registerMessageListener((MessageListenerConcurrently) (messages, context) -> null);
        c.start();
        String retry = "%RETRY%" + group;
        await(20, "a route of " + retry, () -> admin.examineTopicRouteInfo(retry).getQueueDatas().size() == 1);
        c.shutdown();
    }

    DefaultMQPullConsumer puller(String group) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(group);
        c.setNamesrvAddr(nameServer);
        c.setInstanceName(unique());
        c.start();
        atEnd(c::shutdown);
        return c;
    }

    /** A lite pull consumer, not started. */
    DefaultLitePullConsumer lite(String group) {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(group);
        c.setNamesrvAddr(nameServer);
        c.setInstanceName(unique());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        atEnd(c::shutdown);
        return c;
    }

    /** A push consumer that keeps what it gets. */
    final class Sink {
        final List<MessageExt> got = new CopyOnWriteArrayList<>();
        final DefaultMQPushConsumer consumer;
        private volatile Function<MessageExt, ConsumeConcurrentlyStatus> verdict =
            m -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        volatile int delayLevel;

        Sink(String group) {
            consumer = consumer(group);
            consumer.registerMessageListener((MessageListenerConcurrently) this::take);
        }

        private ConsumeConcurrentlyStatus take(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
            context.setDelayLevelWhenNextConsume(delayLevel);
            ConsumeConcurrentlyStatus answer = ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            for (MessageExt m : messages) {
                got.add(m);
                answer = verdict.apply(m);
            }
            return answer;
        }

        Sink deciding(int level, Function<MessageExt, ConsumeConcurrentlyStatus> how) {
            delayLevel = level;
            verdict = how;
            return this;
        }

        Sink start(String topic, String tags) throws Exception {
            consumer.subscribe(topic, tags);
            consumer.start();
            return this;
        }

        List<String> bodies() {
            return got.stream().map(Kit::body).collect(Collectors.toList());
        }

        /** Wait for exactly these, in any order; one too many would come in the following moments. */
        void expect(Collection<String> wanted) throws Exception {
            expect(60, wanted);
        }

        void expect(int seconds, Collection<String> wanted) throws Exception {
            await(seconds, () -> "got " + missing(wanted, bodies()), () -> got.size() >= wanted.size());
            Thread.sleep(700);
            same(wanted, bodies());
        }
    }

    Sink sink(String group, String topic) throws Exception {
        return new Sink(group).start(topic, "*");
    }

    // -- messages --------------------------------------------------------------------------------

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static Message message(String topic, String body) {
        return new Message(topic, bytes(body));
    }

    static Message message(String topic, String tags, String body) {
        return new Message(topic, tags, bytes(body));
    }

    static SendResult sent(SendResult result) {
        check(result.getSendStatus() == SendStatus.SEND_OK, "a send ended with " + result.getSendStatus());
        return result;
    }

    static void send(DefaultMQProducer producer, String topic, Collection<String> bodies) throws Exception {
        for (String body : bodies) sent(producer.send(message(topic, body)));
    }

    static List<String> numbered(String prefix, int count) {
        return IntStream.range(0, count).mapToObj(i -> String.format("%s%04d", prefix, i)).collect(Collectors.toList());
    }

    /** Everything of a queue up to an offset, which must be its end: a broker may show messages a moment late. */
    static List<MessageExt> all(DefaultMQPullConsumer puller, MessageQueue queue, long end) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        await(10, () -> "the end of " + queue + " is not " + end, () -> puller.maxOffset(queue) == end);
        long at = 0;
        while (at < end) {
            PullResult result = puller.pull(queue, "*", at, 32, 10000);
            if (result.getPullStatus() == PullStatus.FOUND) found.addAll(result.getMsgFoundList());
            check(result.getNextBeginOffset() > at, "no way on at offset " + at + ": " + result);
            at = result.getNextBeginOffset();
        }
        return found;
    }

    // -- checks ----------------------------------------------------------------------------------

    static void check(boolean isSo, String what) {
        if (!isSo) throw new AssertionError(what);
    }

    static void equal(Object wanted, Object got, String what) {
        check(String.valueOf(wanted).equals(String.valueOf(got)), what + " is " + got + ", not " + wanted);
    }

    static void same(Collection<String> wanted, Collection<String> got) {
        List<String> a = new ArrayList<>(wanted), b = new ArrayList<>(got);
        Collections.sort(a);
        Collections.sort(b);
        check(a.equals(b), "got " + missing(wanted, got));
    }

    private static String missing(Collection<String> wanted, Collection<String> got) {
        List<String> less = new ArrayList<>(wanted), more = new ArrayList<>(got);
        got.forEach(less::remove);
        wanted.forEach(more::remove);
        return got.size() + " of " + wanted.size() + " messages, missing " + brief(less) + ", too many " + brief(more);
    }

    static String brief(Object value) {
        String text = String.valueOf(value);
        return text.length() > 120 ? text.substring(0, 120) + "…" : text;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(int seconds, String what, Condition condition) throws Exception {
        await(seconds, () -> what, condition);
    }

    static void await(int seconds, java.util.function.Supplier<String> what, Condition condition) throws Exception {
        long end = System.currentTimeMillis() + seconds * 1000L;
        Exception last = null;
        while (true) {
            try {
                if (condition.holds()) return;
                last = null;
            } catch (Exception e) {
                last = e;
            }
            if (System.currentTimeMillis() > end)
                throw new AssertionError("not within " + seconds + " s: " + what.get() + (last == null ? "" : ", " + last));
            Thread.sleep(20);
        }
    }

    interface Action {
        void run() throws Exception;
    }

    /** Run what must fail, and return how it did. */
    static <E extends Exception> E refused(Class<E> kind, String what, Action action) throws Exception {
        try {
            action.run();
        } catch (Exception e) {
            if (kind.isInstance(e)) return kind.cast(e);
            throw e;
        }
        throw new AssertionError(what + " was accepted");
    }

    static void property(MessageExt message, String name, Object wanted) {
        equal(wanted, message.getProperty(name), "property " + name + " of " + brief(message.getProperties()));
    }

    /** A pull consumer refuses SQL until a heartbeat told it the broker's version. */
    static void awaitSql(DefaultMQPullConsumer puller, MessageQueue queue) throws Exception {
        await(20, "a pull by SQL92", () -> puller.pull(queue, MessageSelector.bySql("a = 1"), 0, 1) != null);
    }
}
