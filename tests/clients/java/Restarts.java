import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;

/** Servers that stop and come back while clients are at work. */
class Restarts {
    static void register() {
        Suite.restarting("broker-stopped-and-started", kit -> working(kit, "stop and start the broker"));
        Suite.restarting("broker-killed-and-started", kit -> working(kit, "kill and start the broker"));
        Suite.restarting("name-server-stopped-and-started", kit -> working(kit, "stop and start the name server"));
    }

    /** What was acknowledged before, while and after is consumed, in order; a client that comes later works as well. */
    static void working(Kit kit, String what) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Kit.Sink sink = kit.sink(group, topic);
        DefaultMQPushConsumer orderly = kit.consumer(kit.group("orderly"));
        List<String> inOrder = new CopyOnWriteArrayList<>();
        orderly.subscribe(topic, "*");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(m -> inOrder.add(Kit.body(m)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        orderly.start();
        DefaultMQProducer producer = kit.producer(p -> p.setSendMsgTimeout(2000));
        List<String> acknowledged = Collections.synchronizedList(new java.util.ArrayList<>());
        AtomicBoolean isOver = new AtomicBoolean();
        Thread sending = new Thread(() -> {
            for (int i = 0; !isOver.get(); i++)
                try {
                    String body = String.format("r%06d", i);
                    if (producer.send(Kit.message(topic, body)).getSendStatus() == SendStatus.SEND_OK) acknowledged.add(body);
                    Thread.sleep(5);
                } catch (Exception e) {
                    // not acknowledged: may be lost
                }
        });
        sending.start();
        Kit.await(30, "200 messages", () -> acknowledged.size() >= 200 && sink.got.size() > 0);
        Suite.ask(what);
        int before = acknowledged.size();
        Kit.await(60, "sends after the restart", () -> acknowledged.size() >= before + 200);
        isOver.set(true);
        sending.join();
        Set<String> got = new TreeSet<>(), ordered = new TreeSet<>();
        Kit.await(90, () -> lacking(acknowledged, got) + "; orderly " + lacking(acknowledged, ordered), () -> {
            got.addAll(sink.bodies());
            ordered.addAll(inOrder);
            return got.containsAll(acknowledged) && ordered.containsAll(acknowledged);
        });
        List<String> bodies = Kit.numbered("later", 8);
        String other = kit.topic("other", 4, 6);
        Kit.Sink late = kit.sink(kit.group("late"), other);
        Kit.send(kit.producer(), other, bodies);
        late.expect(bodies);
    }

    private static String lacking(List<String> acknowledged, Set<String> got) {
        Set<String> missing = new TreeSet<>(acknowledged);
        missing.removeAll(got);
        return missing.size() + " of " + acknowledged.size() + " acknowledged messages are missing: " + Kit.brief(missing);
    }
}
