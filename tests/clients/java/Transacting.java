import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions: committed, rolled back, asked about; what is seen of each, and what never is. */
class Transacting {
    static void register() {
        Suite.scenario("transaction-unknown-then-commit", kit -> asked(kit, LocalTransactionState.COMMIT_MESSAGE));
        Suite.scenario("transaction-unknown-then-rollback", kit -> asked(kit, LocalTransactionState.ROLLBACK_MESSAGE));
        Suite.scenario("transaction-commit-and-rollback", Transacting::commitAndRollback);
        Suite.binary("binary-header-transaction", Transacting::commitAndRollback);
    }

    /** Decides by the beginning of the body, and notes what it was asked. */
    static final class Decider implements TransactionListener {
        final Map<String, LocalTransactionState> whenAsked = new ConcurrentHashMap<>();
        final List<String> asked = new CopyOnWriteArrayList<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            String body = new String(message.getBody());
            if (body.startsWith("commit")) return LocalTransactionState.COMMIT_MESSAGE;
            return body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            asked.add(Kit.body(message));
            return whenAsked.getOrDefault(Kit.body(message), LocalTransactionState.UNKNOW);
        }
    }

    private static TransactionMQProducer producer(Kit kit, String group, Decider decider) throws Exception {
        TransactionMQProducer p = new TransactionMQProducer(group);
        p.setNamesrvAddr(Kit.nameServer);
        p.setInstanceName(Kit.unique());
        p.setSendMsgTimeout(10000);
        p.setHeartbeatBrokerInterval(1000);
        p.setTransactionListener(decider);
        p.start();
        kit.atEnd(p::shutdown);
        return p;
    }

    private static TransactionSendResult begin(TransactionMQProducer p, String topic, String body) throws Exception {
        Message message = Kit.message(topic, body);
        message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, "1");
        message.setKeys("k");
        TransactionSendResult result = p.sendMessageInTransaction(message, null);
        Kit.sent(result);
        Kit.equal(result.getMsgId(), result.getTransactionId(), "the transaction's id");
        return result;
    }

    static void commitAndRollback(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        Decider decider = new Decider();
        TransactionMQProducer p = producer(kit, kit.group("p"), decider);
        for (int i = 0; i < 20; i++) begin(p, topic, (i % 2 == 0 ? "commit " : "rollback ") + i);
        sink.expect(Arrays.asList("commit 0", "commit 2", "commit 4", "commit 6", "commit 8", "commit 10", "commit 12",
            "commit 14", "commit 16", "commit 18"));
        for (MessageExt m : sink.got) {
            Kit.equal("k", m.getKeys(), "keys");
            Kit.equal(topic, m.getTopic(), "topic");
            Kit.check(m.getPreparedTransactionOffset() >= 0, "no prepared offset");
        }
        Kit.equal(Collections.emptyList(), decider.asked, "what was asked about although it ended");
    }

    static void asked(Kit kit, LocalTransactionState answer) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        Decider decider = new Decider();
        TransactionMQProducer p = producer(kit, kit.group("p"), decider);
        decider.whenAsked.put("unknown", answer);
        Kit.equal(LocalTransactionState.UNKNOW, begin(p, topic, "unknown").getLocalTransactionState(), "state");
        Kit.equal(0, sink.got.size(), "the number of messages before the check");
        Kit.await(120, "a check", () -> !decider.asked.isEmpty());
        sink.expect(answer == LocalTransactionState.COMMIT_MESSAGE ? Arrays.asList("unknown") : Collections.emptyList());
        Thread.sleep(3000);
        Kit.equal(Arrays.asList("unknown"), decider.asked, "what was asked about");
    }
}
