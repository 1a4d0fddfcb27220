// Sends nine orders and consumes those that were paid or shipped, each customer's in order.
//
//     mvn -q dependency:copy-dependencies -DoutputDirectory=lib
//     java -cp 'lib/*' Orders.java 127.0.0.1:9876

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Orders {
    static final String[] STATES = {"created", "paid", "shipped"};

    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments.length > 0 ? arguments[0] : "127.0.0.1:9876";
        String topic = arguments.length > 1 ? arguments[1] : "orders";

        DefaultMQProducer producer = new DefaultMQProducer("order-desk");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        for (int number = 0; number < 9; number++) {
            String customer = "c-" + number % 3;
            Message order = new Message(
                topic, STATES[number / 3], "order-" + number, ("order " + number).getBytes(StandardCharsets.UTF_8));
            // A customer's orders go into one queue: they are consumed in the order in which they were sent.
            SendResult sent = producer.send(order, new SelectMessageQueueByHash(), customer);
            int queue = sent.getMessageQueue().getQueueId();
            System.out.printf("sent     order %d of %s: queue %d, offset %d%n", number, customer, queue, sent.getQueueOffset());
        }

        CountDownLatch wanted = new CountDownLatch(6);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "paid || shipped");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(message -> {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                System.out.printf("consumed %s, %s%n", body, message.getTags());
                wanted.countDown();
            });
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();

        boolean isComplete = wanted.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        producer.shutdown();
        System.out.println(isComplete ? "done" : "some orders did not arrive");
        System.exit(isComplete ? 0 : 1);
    }
}
