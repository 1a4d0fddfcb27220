import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;

/** Consumers that come and go: the broker tells the others at once, and nothing is lost. */
class Joining {
    static void register() {
        Suite.scenario("join-and-leave", Joining::joinAndLeave);
        Suite.scenario("vanished-consumer", Joining::vanished);
        Suite.scenario("assignment-by-the-broker", Joining::assigned);
        Suite.scenario("heartbeat-v2", Joining::heartbeat);
        Suite.scenario("topic-created-after-its-consumer", Joining::late);
    }

    static long queues(Kit.Sink sink, String topic) {
        return sink.consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(q -> q.getTopic().equals(topic)).count();
    }

    /** Without notices clients balance each 20 s; with them it takes a moment. */
    static void await(List<Kit.Sink> sinks, String topic, long each) throws Exception {
        Kit.await(12, () -> {
            List<Long> counts = new ArrayList<>();
            sinks.forEach(s -> counts.add(queues(s, topic)));
            return "queues " + counts + ", not " + each + " each";
        }, () -> sinks.stream().allMatch(s -> queues(s, topic) == each));
    }

    static void joinAndLeave(Kit kit) throws Exception {
        String topic = kit.topic("t", 6, 6), group = kit.group("g");
        List<Kit.Sink> sinks = new ArrayList<>();
        DefaultMQProducer producer = kit.producer();
        List<String> wanted = new ArrayList<>();
        for (int members = 1; members <= 3; members++) {
            sinks.add(kit.sink(group, topic));
            await(sinks, topic, 6 / members);
            List<String> bodies = Kit.numbered("with" + members + "-", 30);
            Kit.send(producer, topic, bodies);
            wanted.addAll(bodies);
        }
        ConsumerConnection connection = Kit.admin.examineConsumerConnectionInfo(group);
        Kit.equal(3, connection.getConnectionSet().size(), "connections of the group");
        Kit.check(connection.getSubscriptionTable().containsKey(topic), "no subscription of the topic");
        List<Kit.Sink> all = new ArrayList<>(sinks);
        for (int members = 2; members >= 1; members--) {
            sinks.remove(0).consumer.shutdown();
            await(sinks, topic, 6 / members);
            List<String> bodies = Kit.numbered("down" + members + "-", 30);
            Kit.send(producer, topic, bodies);
            wanted.addAll(bodies);
        }
        Set<String> got = new TreeSet<>();
        Kit.await(30, () -> got.size() + " of " + wanted.size(), () -> {
            for (Kit.Sink s : all) got.addAll(s.bodies());
            return got.size() == wanted.size();
        });
    }

    /** Its sockets close without a word. */
    static void vanished(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        List<Kit.Sink> sinks = new ArrayList<>();
        for (int i = 0; i < 2; i++) sinks.add(kit.sink(group, topic));
        await(sinks, topic, 2);
        Kit.Sink gone = sinks.remove(0);
        gone.consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl().getRemotingClient().shutdown();
        await(sinks, topic, 4);
        List<String> bodies = Kit.numbered("left", 20);
        Kit.send(kit.producer(), topic, bodies);
        sinks.get(0).expect(bodies);
    }

    /** The broker may compute who reads what; a client falls back to its own rules when it does not. */
    static void assigned(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        List<Kit.Sink> sinks = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Kit.Sink sink = kit.new Sink(group);
            sink.consumer.setClientRebalance(false);
            sinks.add(sink.start(topic, "*"));
        }
        List<String> bodies = Kit.numbered("q", 40);
        Kit.send(kit.producer(), topic, bodies);
        Set<String> got = new TreeSet<>();
        Kit.await(60, () -> got.size() + " of 40", () -> {
            for (Kit.Sink s : sinks) got.addAll(s.bodies());
            return got.size() == 40;
        });
    }

    static void heartbeat(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Kit.Sink sink = kit.new Sink(group);
        sink.consumer.setUseHeartbeatV2(true);
        sink.consumer.setHeartbeatBrokerInterval(500);
        sink.start(topic, "TagH");
        DefaultMQProducer producer = kit.producer();
        List<String> wanted = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            for (String body : Kit.numbered("h" + round + "-", 8)) {
                Kit.sent(producer.send(Kit.message(topic, "TagH", body)));
                wanted.add(body);
            }
            Kit.sent(producer.send(Kit.message(topic, "other", "not this")));
            Thread.sleep(1000);
        }
        sink.expect(wanted);
        Kit.equal("TagH", Kit.admin.examineConsumerConnectionInfo(group).getSubscriptionTable().get(topic).getSubString(), "its subscription");
    }

    static void late(Kit kit) throws Exception {
        String topic = kit.name("t");
        DefaultMQPushConsumer consumer = kit.consumer(kit.group("g"));
        List<String> got = java.util.Collections.synchronizedList(new ArrayList<>());
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> got.add(Kit.body(m)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(1000);
        Kit.alter(topic, 4, 6);
        List<String> bodies = Kit.numbered("late", 10);
        Kit.send(kit.producer(), topic, bodies);
        Kit.await(60, () -> got.size() + " of 10", () -> got.size() >= 10);
        Kit.same(bodies, got);
    }
}
