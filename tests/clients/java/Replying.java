import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;

/** What the broker carries from one client to another: replies, and questions of the tools. */
class Replying {
    static void register() {
        Suite.scenario("request-reply", Replying::requestReply);
        Suite.scenario("request-without-reply", Replying::timeout);
        Suite.scenario("running-info-of-a-consumer", Replying::runningInfo);
        Suite.scenario("consume-directly", Replying::directly);
        Suite.binary("binary-header-request-reply", Replying::requestReply);
    }

    private static void answerer(Kit kit, String topic) throws Exception {
        DefaultMQProducer answers = kit.producer();
        DefaultMQPushConsumer consumer = kit.consumer(kit.group("answerer"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages)
                try {
                    answers.send(MessageUtil.createReplyMessage(m, Kit.bytes("answer to " + Kit.body(m))), 5000);
                } catch (Exception e) {
                    e.printStackTrace();
                }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    static void requestReply(Kit kit) throws Exception {
        String topic = kit.topic();
        answerer(kit, topic);
        DefaultMQProducer producer = kit.producer();
        for (int i = 0; i < 5; i++) {
            Message answer = producer.request(Kit.message(topic, "question " + i), 30000);
            Kit.equal("answer to question " + i, new String(answer.getBody()), "answer");
        }
        CountDownLatch open = new CountDownLatch(10);
        AtomicReference<String> trouble = new AtomicReference<>();
        for (int i = 0; i < 10; i++) {
            String question = "async " + i;
            producer.request(Kit.message(topic, question), new RequestCallback() {
                @Override
                public void onSuccess(Message answer) {
                    if (!("answer to " + question).equals(new String(answer.getBody()))) trouble.set("wrong answer to " + question);
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    trouble.set("" + e);
                    open.countDown();
                }
            }, 20000);
        }
        Kit.check(open.await(30, TimeUnit.SECONDS), open.getCount() + " answers did not come");
        Kit.equal(null, trouble.get(), "trouble");
    }

    static void timeout(Kit kit) throws Exception {
        String topic = kit.topic();
        DefaultMQProducer producer = kit.producer();
        long start = System.currentTimeMillis();
        Kit.refused(RequestTimeoutException.class, "a request that nobody answers", () -> producer.request(Kit.message(topic, "?"), 2000));
        Kit.check(System.currentTimeMillis() - start < 10000, "it took " + (System.currentTimeMillis() - start) + " ms");
    }

    static void runningInfo(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Kit.Sink sink = kit.sink(group, topic);
        Kit.send(kit.producer(), topic, Kit.numbered("r", 8));
        sink.expect(Kit.numbered("r", 8));
        ConsumerRunningInfo info = Kit.admin.getConsumerRunningInfo(group, sink.consumer.buildMQClientId(), false);
        Kit.equal(4, info.getMqTable().keySet().stream().filter(q -> q.getTopic().equals(topic)).count(), "the number of queues");
        Kit.check(info.getSubscriptionSet().stream().anyMatch(s -> s.getTopic().equals(topic)), "its subscriptions lack the topic");
        Exception e = Kit.refused(Exception.class, "a question to a client that is not there",
            () -> Kit.admin.getConsumerRunningInfo(group, "nobody@1", false));
        Kit.check(String.valueOf(e).contains("CODE: 1 ") || String.valueOf(e).contains("CODE: 206"), "refused by " + e);
    }

    static void directly(Kit kit) throws Exception {
        String topic = kit.topic(), group = kit.group("g");
        Kit.Sink sink = kit.sink(group, topic);
        String id = Kit.sent(kit.producer().send(Kit.message(topic, "twice"))).getOffsetMsgId();
        sink.expect(java.util.Arrays.asList("twice"));
        ConsumeMessageDirectlyResult result = Kit.admin.consumeMessageDirectly(group, sink.consumer.buildMQClientId(), topic, id);
        Kit.equal(CMResult.CR_SUCCESS, result.getConsumeResult(), "result");
        sink.expect(java.util.Arrays.asList("twice", "twice"));
    }
}
