import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What is in a message: sizes, compression, any bytes, any properties. */
class Bodies {
    static final int LIMIT = 4 << 20;

    static void register() {
        Suite.scenario("compression", Bodies::compression);
        Suite.scenario("large-bodies", Bodies::large);
        Suite.scenario("any-bytes", Bodies::anyBytes);
        Suite.scenario("properties-and-unicode", Bodies::properties);
        Suite.scenario("too-many-properties", Bodies::tooManyProperties);
        Suite.binary("binary-header-properties-and-unicode", Bodies::properties);
    }

    static void compression(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        String text = "squeeze me, ".repeat(50000);
        Map<String, String> sent = new HashMap<>();
        for (CompressionType type : CompressionType.values())
            for (int level : new int[] {1, 9}) {
                String body = type + " " + level + " " + text;
                DefaultMQProducer producer = kit.producer(p -> {
                    p.setCompressType(type);
                    p.setCompressLevel(level);
                });
                Message m = Kit.message(topic, body);
                sent.put(Kit.sent(producer.send(m)).getMsgId(), body);
            }
        sink.expect(sent.values());
        for (MessageExt m : sink.got) {
            Kit.equal(sent.get(m.getMsgId()).hashCode(), Kit.body(m).hashCode(), "hash of the body");
            Kit.check(m.getStoreSize() < 60000, Kit.body(m).substring(0, 6) + ": stored in " + m.getStoreSize() + " bytes");
        }
    }

    static DefaultMQProducer plainly(Kit kit) throws Exception {
        return kit.producer(p -> {
            p.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            p.setMaxMessageSize(64 << 20);
            p.setRetryTimesWhenSendFailed(0);
            p.setSendMsgTimeout(30000);
        });
    }

    static void large(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6);
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        DefaultMQProducer producer = plainly(kit);
        byte[][] bodies = {new byte[LIMIT], new byte[1], new byte[LIMIT - 1], new byte[1 << 20], new byte[65536]};
        for (byte[] body : bodies) {
            new Random(body.length).nextBytes(body);
            Kit.sent(producer.send(new Message(topic, body)));
        }
        Kit.await(60, () -> sink.got.size() + " of 5 messages", () -> sink.got.size() == bodies.length);
        for (MessageExt m : sink.got) {
            byte[] wanted = bodies[(int) m.getQueueOffset()];
            Kit.check(Arrays.equals(wanted, m.getBody()), "the body of " + wanted.length + " bytes came back different");
        }
        for (int size : new int[] {LIMIT + 1, 8 << 20}) {
            MQBrokerException e = Kit.refused(MQBrokerException.class, "a body of " + size + " bytes",
                () -> producer.send(new Message(topic, new byte[size])));
            Kit.equal(13, e.getResponseCode(), "the code for a body of " + size + " bytes");
        }
        Kit.sent(producer.send(Kit.message(topic, "the connection still works")));
    }

    static void anyBytes(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6);
        byte[] body = new byte[1024];
        for (int i = 0; i < body.length; i++) body[i] = (byte) i;
        Kit.sent(kit.producer().send(new Message(topic, body)));
        MessageExt m = Kit.all(kit.puller(kit.group("g")), Kit.queue(topic, 0), 1).get(0);
        Kit.check(Arrays.equals(body, m.getBody()), "the body came back different");
    }

    static void properties(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.new Sink(kit.group("g")).start(topic, "übung || 标签");
        DefaultMQProducer producer = kit.producer();
        String[] values = {"grün", "消息队列", "🚀 rocket", " spaces  kept ", "a=b&c;d,e{}[]\"'\\", "x".repeat(20000), "0"};
        for (String tag : new String[] {"übung", "标签", "other"}) {
            Message m = Kit.message(topic, tag, "ключ " + tag);
            m.setKeys("clé1 钥匙2");
            for (int i = 0; i < values.length; i++) m.putUserProperty("name " + i + " é", values[i]);
            Kit.sent(producer.send(m));
        }
        sink.expect(Arrays.asList("ключ übung", "ключ 标签"));
        for (MessageExt m : sink.got) {
            Kit.equal("clé1 钥匙2", m.getKeys(), "keys");
            for (int i = 0; i < values.length; i++) Kit.property(m, "name " + i + " é", values[i]);
        }
        Kit.await(10, "a query by a Chinese key",
            () -> Kit.admin.queryMessage(topic, "钥匙2", 32, 0, Long.MAX_VALUE).getMessageList().size() == 3);
    }

    static void tooManyProperties(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = plainly(kit);
        Message fits = Kit.message(topic, "fits");
        fits.putUserProperty("long", "y".repeat(32000));
        Kit.sent(producer.send(fits));
        Message m = Kit.message(topic, "too much");
        m.putUserProperty("long", "y".repeat(33000));
        MQBrokerException e = Kit.refused(MQBrokerException.class, "33 000 bytes of properties", () -> producer.send(m));
        Kit.equal(13, e.getResponseCode(), "the code");
        Message unicode = Kit.message(topic, "too much in bytes");
        unicode.putUserProperty("long", "é".repeat(17000));
        Kit.check(unicode.getProperty("long").getBytes(StandardCharsets.UTF_8).length > 32767, "this test");
        e = Kit.refused(MQBrokerException.class, "34 000 bytes in 17 000 letters", () -> producer.send(unicode));
        Kit.equal(13, e.getResponseCode(), "the code");
        Kit.sent(producer.send(Kit.message(topic, "the connection still works")));
    }
}
