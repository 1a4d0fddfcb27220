import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Push consumers that the broker has take messages by receipts. */
class Popping {
    static final int INVISIBLE_MS = 5000;  // the client takes no less

    static void register() {
        Suite.scenario("pop-push-consumer", Popping::consumed);
        Suite.scenario("pop-invisible-time", Popping::tooSlow);
    }

    /** A delivery, and when it came. */
    static final class Delivery {
        final MessageExt message;
        final long at = System.currentTimeMillis();

        Delivery(MessageExt message) {
            this.message = message;
        }
    }

    interface Listener {
        void take(MessageExt message) throws Exception;
    }

    private static List<Delivery> of(Iterable<Delivery> all, String body) {
        List<Delivery> found = new ArrayList<>();
        for (Delivery each : all) if (Kit.body(each.message).equals(body)) found.add(each);
        return found;
    }

    /** Start a consumer that pops; returns what it gets. */
    private static ConcurrentLinkedQueue<Delivery> start(Kit kit, String topic, Listener listener) throws Exception {
        String group = kit.group("g");
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        Kit.admin.createAndUpdateSubscriptionGroupConfig(Kit.brokerAddress, config);
        Kit.admin.setMessageRequestMode(Kit.brokerAddress, topic, group, MessageRequestMode.POP, 8, 5000);
        ConcurrentLinkedQueue<Delivery> got = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = kit.consumer(group);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(INVISIBLE_MS);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                got.add(new Delivery(m));
                try {
                    listener.take(m);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return got;
    }

    /** Everything comes once, but what a listener throws at: that comes again by the client's back-off. */
    static void consumed(Kit kit) throws Exception {
        String topic = kit.topic();
        ConcurrentLinkedQueue<Delivery> got = start(kit, topic, m -> {
            if (Kit.body(m).equals("bad") && m.getReconsumeTimes() == 0) throw new Exception("not now");
        });
        List<String> bodies = Kit.numbered("good", 30);
        Kit.send(kit.producer(), topic, bodies);
        Kit.sent(kit.producer().send(Kit.message(topic, "bad")));
        Kit.await(60, () -> got.size() + " deliveries", () -> of(got, "bad").size() == 2);
        List<Delivery> bad = of(got, "bad");
        long pause = bad.get(1).at - bad.get(0).at;
        Kit.check(pause > 9000 && pause < 25000, "it came again after " + pause + " ms");
        Kit.equal(1, bad.get(1).message.getReconsumeTimes(), "reconsume times");
        Thread.sleep(INVISIBLE_MS + 2000);  // what was not acknowledged would come again
        List<String> wanted = new ArrayList<>(bodies);
        wanted.addAll(Arrays.asList("bad", "bad"));
        Kit.same(wanted, got.stream().map(each -> Kit.body(each.message)).collect(Collectors.toList()));
        for (Delivery each : got) {
            Kit.check(each.message.getProperty(MessageConst.PROPERTY_POP_CK) != null, "a message without a receipt");
            Kit.equal(topic, each.message.getTopic(), "topic");
        }
    }

    /** A listener that takes too long loses its message to the next one, and cannot acknowledge it any more. */
    static void tooSlow(Kit kit) throws Exception {
        String topic = kit.topic();
        ConcurrentLinkedQueue<Delivery> got = start(kit, topic, m -> {
            if (m.getReconsumeTimes() == 0) Thread.sleep(INVISIBLE_MS + 4000);
        });
        Kit.sent(kit.producer().send(Kit.message(topic, "slow")));
        Kit.await(60, () -> got.size() + " deliveries", () -> got.size() == 2);
        List<Delivery> slow = of(got, "slow");
        long pause = slow.get(1).at - slow.get(0).at;
        Kit.check(pause >= INVISIBLE_MS - 500 && pause < INVISIBLE_MS + 3900, "it came again after " + pause + " ms");
        Kit.equal(1, slow.get(1).message.getReconsumeTimes(), "reconsume times");
        Thread.sleep(INVISIBLE_MS + 4000);
        Kit.equal(2, got.size(), "the number of deliveries");
    }
}
