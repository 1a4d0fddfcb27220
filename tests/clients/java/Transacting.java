import static org.apache.rocketmq.client.producer.LocalTransactionState.COMMIT_MESSAGE;
import static org.apache.rocketmq.client.producer.LocalTransactionState.ROLLBACK_MESSAGE;
import static org.apache.rocketmq.client.producer.LocalTransactionState.UNKNOW;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions: committed, rolled back, asked about; what is seen of each, and what never is. */
class Transacting {
    static void register() {
        Suite.scenario("transaction-unknown-then-commit", kit -> asked(kit, COMMIT_MESSAGE));
        Suite.scenario("transaction-unknown-then-rollback", kit -> asked(kit, ROLLBACK_MESSAGE));
        Suite.scenario("transaction-other-member-is-asked", kit -> otherMember(kit, TransactionMQProducer::shutdown));
        Suite.scenario("transaction-producer-vanishes", kit -> otherMember(kit, Transacting::vanish));
        Suite.scenario("transaction-commit-and-rollback", Transacting::commitAndRollback);
        Suite.ours("transaction-repeated-end", Transacting::repeated);
        Suite.binary("binary-header-transaction", Transacting::commitAndRollback);
    }

    /** Decides by the beginning of the body, and notes what it was asked. */
    static final class Decider implements TransactionListener {
        final Map<String, LocalTransactionState> whenAsked = new ConcurrentHashMap<>();
        final List<String> asked = new CopyOnWriteArrayList<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            String body = new String(message.getBody());
            if (body.startsWith("commit")) return COMMIT_MESSAGE;
            return body.startsWith("rollback") ? ROLLBACK_MESSAGE : UNKNOW;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            asked.add(Kit.body(message));
            return whenAsked.getOrDefault(Kit.body(message), UNKNOW);
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
        if (!body.startsWith("commit") && !body.startsWith("rollback"))
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
        Kit.equal(UNKNOW, begin(p, topic, "unknown").getLocalTransactionState(), "state");
        Kit.equal(0, sink.got.size(), "the number of messages before the check");
        Kit.await(60, "a check", () -> !decider.asked.isEmpty());
        sink.expect(answer == COMMIT_MESSAGE ? Arrays.asList("unknown") : Collections.emptyList());
        Thread.sleep(4000);  // longer than servers.py lets pass between two questions
        Kit.equal(Arrays.asList("unknown"), decider.asked, "what was asked about");
    }

    /** Break a client's connections as a killed process does: it says no good-bye, and comes never back. */
    private static void vanish(TransactionMQProducer p) {
        p.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl().getRemotingClient().shutdown();
    }

    /** Whoever began a transaction is gone: another member of its group is asked. */
    static void otherMember(Kit kit, Consumer<TransactionMQProducer> end) throws Exception {
        String topic = kit.topic(), group = kit.group("p");
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        TransactionMQProducer dead = producer(kit, group, new Decider());
        begin(dead, topic, "orphan");
        end.accept(dead);
        Decider other = new Decider();
        other.whenAsked.put("orphan", COMMIT_MESSAGE);
        begin(producer(kit, group, other), topic, "commit");  // this client is no member before it has sent
        sink.expect(Arrays.asList("commit", "orphan"));
        Kit.equal(Arrays.asList("orphan"), other.asked, "what the other was asked about");
    }

    /** The client says an end without waiting for an answer: the first one holds, and nothing comes twice. */
    static void repeated(Kit kit) throws Exception {
        String topic = kit.topic();
        Kit.Sink sink = kit.sink(kit.group("g"), topic);
        Decider decider = new Decider();
        TransactionMQProducer p = producer(kit, kit.group("p"), decider);
        for (LocalTransactionState first : Arrays.asList(COMMIT_MESSAGE, ROLLBACK_MESSAGE)) {
            Message message = Kit.message(topic, first.name());
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_PRODUCER_GROUP, p.getProducerGroup());
            SendResult begun = Kit.sent(p.send(message));
            for (LocalTransactionState again : Arrays.asList(first, first, ROLLBACK_MESSAGE, COMMIT_MESSAGE, UNKNOW, first))
                p.getDefaultMQProducerImpl().endTransaction(message, begun, again, null);
        }
        Kit.sent(p.send(Kit.message(topic, "last")));
        sink.expect(Arrays.asList(COMMIT_MESSAGE.name(), "last"));
        Kit.equal(Collections.emptyList(), decider.asked, "what was asked about although it ended");
    }
}
