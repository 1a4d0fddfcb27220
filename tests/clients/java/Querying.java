import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages looked up by key, by unique id and by offset id. */
class Querying {
    static void register() {
        Suite.scenario("query-by-key", Querying::byKey);
        Suite.scenario("query-by-id", Querying::byId);
        Suite.binary("binary-header-query-by-id", Querying::byId);
    }

    private static List<String> found(String topic, String key, int limit, long begin, long end) throws Exception {
        try {
            return Kit.admin.queryMessage(topic, key, limit, begin, end).getMessageList().stream().map(Kit::body).sorted().collect(Collectors.toList());
        } catch (MQClientException e) {
            if (String.valueOf(e.getMessage()).contains("no message")) return new ArrayList<>();
            throw e;
        }
    }

    static void byKey(Kit kit) throws Exception {
        String topic = kit.topic(), other = kit.topic("other", 1, 6);
        DefaultMQProducer producer = kit.producer();
        long middle = 0;
        for (int i = 0; i < 20; i++) {
            if (i == 10) {
                Thread.sleep(1100);  // the index keeps seconds
                middle = System.currentTimeMillis();
                Thread.sleep(1100);
            }
            Message m = Kit.message(topic, String.format("m%04d", i));
            m.setKeys(Arrays.asList("order-" + i, i % 2 == 0 ? "even" : "odd", "all"));
            Kit.sent(producer.send(m));
        }
        Message elsewhere = Kit.message(other, "elsewhere");
        elsewhere.setKeys("all");
        Kit.sent(producer.send(elsewhere));
        List<String> all = Kit.numbered("m", 20);
        Kit.await(20, "the index", () -> found(topic, "all", 64, 0, Long.MAX_VALUE).size() == 20);
        Kit.equal(all, found(topic, "all", 64, 0, Long.MAX_VALUE), "messages with the common key");
        Kit.equal("[m0007]", found(topic, "order-7", 32, 0, Long.MAX_VALUE), "messages of order 7");
        Kit.equal(10, found(topic, "odd", 32, 0, Long.MAX_VALUE).size(), "the number of odd ones");
        Kit.equal(5, found(topic, "all", 5, 0, Long.MAX_VALUE).size(), "the number of messages under a limit of 5");
        Kit.equal(all.subList(0, 10), found(topic, "all", 64, 0, middle), "messages of the first half");
        Kit.equal(all.subList(10, 20), found(topic, "all", 64, middle, Long.MAX_VALUE), "messages of the second half");
        Kit.equal("[elsewhere]", found(other, "all", 64, 0, Long.MAX_VALUE), "messages of the other topic");
        Kit.equal("[]", found(topic, "order-77", 32, 0, Long.MAX_VALUE), "messages of a key that is not there");
    }

    static void byId(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        Kit.send(producer, topic, Kit.numbered("before", 5));
        SendResult result = Kit.sent(producer.send(Kit.message(topic, "TagQ", "wanted")));
        Kit.send(producer, topic, Kit.numbered("after", 5));
        MessageExt m = producer.viewMessage(topic, result.getOffsetMsgId());
        Kit.equal("wanted", Kit.body(m), "by offset id");
        Kit.equal(result.getQueueOffset(), m.getQueueOffset(), "its queue offset");
        Kit.equal("TagQ", m.getTags(), "its tag");
        Kit.await(20, "the unique id in the index", () -> Kit.body(producer.viewMessage(topic, result.getMsgId())).equals("wanted"));
        MessageExt unique = Kit.admin.queryMessage(Kit.cluster, topic, result.getMsgId());
        Kit.equal("wanted", Kit.body(unique), "by unique id");
        String id = result.getOffsetMsgId(), far = id.substring(0, id.length() - 16) + "0000FFFFFFFFFFFF";
        Exception e = Kit.refused(Exception.class, "an id beyond the log", () -> Kit.admin.viewMessage(topic, far));
        Kit.check(e instanceof MQBrokerException || e instanceof MQClientException, "refused by " + e);
    }
}
