import java.util.Arrays;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** What LiteMQ does not do yet is refused by name, and never stored as a plain message. */
class Refusals {
    static void register() {
        Suite.ours("delayed-send-refused", Refusals::delayed);
    }

    private static void nothing(Kit kit, String topic) throws Exception {
        DefaultMQProducer producer = kit.producer();
        for (int queue = 0; queue < 4; queue++) Kit.equal(0, producer.maxOffset(Kit.queue(topic, queue)), "the end of queue " + queue);
    }

    static void delayed(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer(p -> p.setRetryTimesWhenSendFailed(0));
        Message level = Kit.message(topic, "level"), seconds = Kit.message(topic, "seconds"), moment = Kit.message(topic, "moment");
        level.setDelayTimeLevel(3);
        seconds.setDelayTimeSec(2);
        moment.setDeliverTimeMs(System.currentTimeMillis() + 3000);
        for (Message m : Arrays.asList(level, seconds, moment)) {
            String what = "a delay by " + new String(m.getBody());
            MQBrokerException e = Kit.refused(MQBrokerException.class, what, () -> producer.send(m));
            Kit.equal(13, e.getResponseCode(), "the code for " + what);
            Kit.check(e.getErrorMessage().toLowerCase().contains("delay"), "it says " + e.getErrorMessage());
        }
        nothing(kit, topic);
    }
}
