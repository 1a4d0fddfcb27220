import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Tags and SQL92. */
class Filtering {
    static void register() {
        Suite.scenario("tags", Filtering::tags);
        Suite.scenario("sql92", Filtering::sql);
        Suite.scenario("sql92-expressions", Filtering::expressions);
        Suite.scenario("sql92-mistakes", Filtering::mistakes);
        Suite.scenario("changed-subscription", Filtering::changed);
        Suite.scenario("two-topics-in-one-group", Filtering::twoTopics);
        Suite.binary("binary-header-tags", Filtering::tags);
        Suite.binary("binary-header-sql92", Filtering::sql);
    }

    /** "Aa" and "BB" have the same hash in Java, and so have longer names made of them. */
    static void tags(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink one = kit.new Sink(kit.group("one")).start(topic, "AaAa");
        Kit.Sink some = kit.new Sink(kit.group("some")).start(topic, "red||AaBB  ||  blue");
        Kit.Sink all = kit.new Sink(kit.group("all")).start(topic, "*");
        DefaultMQProducer producer = kit.producer();
        List<String> wantedOne = new ArrayList<>(), wantedSome = new ArrayList<>(), wantedAll = new ArrayList<>();
        for (String tag : new String[] {"AaAa", "AaBB", "BBAa", "BBBB", "red", "blue", "reddish", null})
            for (int i = 0; i < 5; i++) {
                String body = tag + "-" + i;
                Kit.sent(producer.send(Kit.message(topic, tag, body)));
                wantedAll.add(body);
                if ("AaAa".equals(tag)) wantedOne.add(body);
                if (Arrays.asList("red", "AaBB", "blue").contains(String.valueOf(tag))) wantedSome.add(body);
            }
        one.expect(wantedOne);
        some.expect(wantedSome);
        all.expect(wantedAll);
    }

    static void sql(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.new Sink(kit.group("g"));
        sink.consumer.subscribe(topic, MessageSelector.bySql("TAGS IS NOT NULL AND TAGS IN ('gold', 'silver') AND price > 9"));
        sink.consumer.start();
        Kit.Sink other = kit.new Sink(kit.group("none"));
        other.consumer.subscribe(topic, MessageSelector.bySql("price > 1000000"));
        other.consumer.start();
        DefaultMQProducer producer = kit.producer();
        List<String> wanted = new ArrayList<>();
        for (String tag : new String[] {"gold", "silver", "iron", null})
            for (int price = 0; price < 20; price += 3) {
                Message m = Kit.message(topic, tag, tag + "-" + price);
                m.putUserProperty("price", "" + price);
                Kit.sent(producer.send(m));
                if (("gold".equals(tag) || "silver".equals(tag)) && price > 9) wanted.add(tag + "-" + price);
            }
        sink.expect(wanted);
        Kit.equal(0, other.got.size(), "messages of the other expression");
    }

    /** Each expression with what it must choose, over a grid of messages in one queue. */
    static void expressions(Kit kit) throws Exception {
        String topic = kit.topic("t", 1, 6);
        DefaultMQProducer producer = kit.producer();
        for (int a = -2; a <= 4; a++)
            for (String s : new String[] {null, "x", "it's", "yonder", "12"})
                for (String flag : new String[] {"true", "false"}) {
                    Message m = Kit.message(topic, a + "|" + s + "|" + flag);
                    m.putUserProperty("a", "" + a);
                    m.putUserProperty("half", "" + a / 2.0);
                    if (s != null) m.putUserProperty("s", s);
                    m.putUserProperty("flag", flag);
                    Kit.sent(producer.send(m));
                }
        Map<String, Predicate<MessageExt>> cases = new LinkedHashMap<>();
        cases.put("a = 3", m -> a(m) == 3);
        cases.put("a <> 3", m -> a(m) != 3);
        cases.put("a > 1 AND a <= 3", m -> a(m) > 1 && a(m) <= 3);
        cases.put("a >= -1 AND a < 1", m -> a(m) >= -1 && a(m) < 1);
        cases.put("a BETWEEN 0 AND 2", m -> a(m) >= 0 && a(m) <= 2);
        cases.put("a NOT BETWEEN 0 AND 2", m -> a(m) < 0 || a(m) > 2);
        cases.put("half > 0.75", m -> a(m) / 2.0 > 0.75);
        cases.put("half = 1.5 OR half = -1.0", m -> a(m) == 3 || a(m) == -2);
        cases.put("half = 1", m -> Kit.isOurs && a(m) == 2);  // RocketMQ takes "1.0" for no number beside a whole one
        cases.put("s = 'x'", m -> "x".equals(s(m)));
        cases.put("s = 'it''s'", m -> "it's".equals(s(m)));
        cases.put("s IN ('x', 'yonder')", m -> "x".equals(s(m)) || "yonder".equals(s(m)));
        cases.put("s NOT IN ('x', 'yonder')", m -> s(m) != null && !"x".equals(s(m)) && !"yonder".equals(s(m)));
        cases.put("s IS NULL", m -> s(m) == null);
        cases.put("s IS NOT NULL AND NOT (a > 0)", m -> s(m) != null && a(m) <= 0);
        cases.put("flag = TRUE", m -> "true".equals(m.getProperty("flag")));
        cases.put("flag = false and a = 1", m -> "false".equals(m.getProperty("flag")) && a(m) == 1);
        cases.put("s CONTAINS 'onde'", m -> s(m) != null && s(m).contains("onde"));
        cases.put("s STARTSWITH 'yo'", m -> s(m) != null && s(m).startsWith("yo"));
        cases.put("s ENDSWITH 's'", m -> s(m) != null && s(m).endsWith("s"));
        cases.put("(a = 1 OR a = 2) AND (s = 'x' OR flag = TRUE)",
            m -> (a(m) == 1 || a(m) == 2) && ("x".equals(s(m)) || "true".equals(m.getProperty("flag"))));
        cases.put("a = 1 OR a = 2 AND s = 'x'", m -> a(m) == 1 || a(m) == 2 && "x".equals(s(m)));
        cases.put("missing = 1", m -> false);
        cases.put("missing IS NULL AND a = 4", m -> a(m) == 4);
        DefaultMQPullConsumer puller = kit.puller(kit.group("g"));
        List<MessageExt> all = Kit.all(puller, Kit.queue(topic, 0), 70);
        Kit.awaitSql(puller, Kit.queue(topic, 0));
        List<String> wrong = new ArrayList<>();
        for (Map.Entry<String, Predicate<MessageExt>> one : cases.entrySet()) {
            List<String> wanted = new ArrayList<>(), got = new ArrayList<>();
            for (MessageExt m : all) if (one.getValue().test(m)) wanted.add(Kit.body(m));
            try {
                long at = 0;
                while (at < all.size()) {
                    PullResult r = puller.pull(Kit.queue(topic, 0), MessageSelector.bySql(one.getKey()), at, 32);
                    if (r.getPullStatus() == PullStatus.FOUND) for (MessageExt m : r.getMsgFoundList()) got.add(Kit.body(m));
                    Kit.check(r.getNextBeginOffset() > at, "no way on: " + r);
                    at = r.getNextBeginOffset();
                }
                if (!wanted.equals(got)) wrong.add(one.getKey() + ": " + got.size() + " messages, not " + wanted.size());
            } catch (Exception | AssertionError e) {
                wrong.add(one.getKey() + ": " + e);
            }
        }
        Kit.check(wrong.isEmpty(), String.join("; ", wrong));
    }

    private static int a(MessageExt m) {
        return Integer.parseInt(m.getProperty("a"));
    }

    private static String s(MessageExt m) {
        return m.getProperty("s");
    }

    static void mistakes(Kit kit) throws Exception {
        String topic = kit.topic();
        for (String bad : new String[] {"a >", "a = = 1", "(a = 1", "a BETWEEN 3 AND", "'x' IN (a)", "a = 'unfinished"}) {
            Kit.Sink sink = kit.new Sink(kit.group("g" + Math.abs(bad.hashCode())));
            sink.consumer.subscribe(topic, MessageSelector.bySql(bad));
            Kit.refused(MQClientException.class, "the expression " + bad, sink.consumer::start);
        }
        if (!Kit.isOurs) return;  // there a pull with such an expression finds nothing
        DefaultMQPullConsumer puller = kit.puller(kit.group("p"));
        MessageQueue queue = Kit.queue(topic, 0);
        Kit.awaitSql(puller, queue);
        Exception e = Kit.refused(Exception.class, "a pull with a bad expression",
            () -> puller.pull(queue, MessageSelector.bySql("a >"), 0, 1));
        Kit.check(String.valueOf(e).contains("CODE: 23"), "refused by " + e);
    }

    static void changed(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.new Sink(kit.group("g")).start(topic, "before");
        DefaultMQProducer producer = kit.producer();
        Kit.sent(producer.send(Kit.message(topic, "before", "1")));
        Kit.sent(producer.send(Kit.message(topic, "after", "2")));
        sink.expect(Arrays.asList("1"));
        sink.consumer.subscribe(topic, "after");
        Kit.await(60, "a message with the new tag", () -> {  // pulls that are parked with the old one must end first
            Kit.sent(producer.send(Kit.message(topic, "after", "new")));
            Thread.sleep(500);
            return sink.bodies().contains("new");
        });
        int before = sink.got.size();
        Kit.send(producer, topic, Arrays.asList("no tag"));
        Kit.await(20, "more with the new tag", () -> {
            Kit.sent(producer.send(Kit.message(topic, "after", "new")));
            Thread.sleep(100);
            return sink.got.size() > before + 4;
        });
        Kit.check(!sink.bodies().contains("no tag"), "got a message without the tag");
    }

    static void twoTopics(Kit kit) throws Exception {
        String first = kit.topic("first", 2, 6), second = kit.topic("second", 2, 6);
        Kit.Sink sink = kit.new Sink(kit.group("g"));
        DefaultMQPushConsumer consumer = sink.consumer;
        consumer.subscribe(first, "*");
        consumer.subscribe(second, "only");
        consumer.start();
        DefaultMQProducer producer = kit.producer();
        Kit.send(producer, first, Kit.numbered("f", 10));
        Kit.send(producer, second, Kit.numbered("no", 10));
        for (String body : Kit.numbered("s", 10)) Kit.sent(producer.send(Kit.message(second, "only", body)));
        List<String> wanted = Kit.numbered("f", 10);
        wanted.addAll(Kit.numbered("s", 10));
        sink.expect(wanted);
    }
}
