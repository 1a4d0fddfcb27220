import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * mqadmin, many commands in one process: a line with a JSON array of arguments in, {"said": …} out.
 * One command is not mqadmin's: live NAME_SERVER TOPIC GROUP PRODUCER_GROUP COUNT starts a consumer and a producer,
 * which sends so many messages and says their ids (unique and by offset), queues and offsets once they are consumed.
 */
public class Admin {
    private static class Commands extends MQAdminStartup {
        /** Some commands keep clients that cannot be started again. */
        static void renew() {
            SUB_COMMANDS.clear();
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out, err = System.err;
        hurry(Thread.currentThread());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            try {
                String[] command = JSON.parseArray(line).toArray(new String[0]);
                if (command[0].equals("live")) live(command);
                else {
                    Commands.renew();
                    MQAdminStartup.main0(command, null);
                }
            } catch (Throwable e) {
                e.printStackTrace();
            }
            System.setOut(out);
            System.setErr(err);
            JSONObject answer = new JSONObject();
            answer.put("said", said.toString(StandardCharsets.UTF_8));
            out.writeBytes((answer + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Each second command or so waits three seconds for its network thread to end; a nudge spares that. */
    private static void hurry(Thread main) {
        Thread watch = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(50);
                } catch (InterruptedException e) {
                    return;
                }
                if (main.getState() != Thread.State.TIMED_WAITING) continue;
                for (StackTraceElement at : main.getStackTrace())
                    if (at.getClassName().endsWith("NettyRemotingClient") && at.getMethodName().equals("shutdown")) main.interrupt();
            }
        });
        watch.setDaemon(true);
        watch.start();
    }

    private static void live(String[] command) throws Exception {
        String nameServer = command[1], topic = command[2];
        int count = Integer.parseInt(command[5]);
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command[3]);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(command[3]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(topic, "TagA || TagB");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> open.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer(command[4]);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(command[4]);
        producer.setHeartbeatBrokerInterval(500);
        producer.start();
        for (int i = 0; i < count; i++) {
            Message m = new Message(topic, i % 2 == 0 ? "TagA" : "TagB", "key" + i, ("body " + i).getBytes(StandardCharsets.UTF_8));
            SendResult r = producer.send(m, 10000);
            System.out.println(r.getMsgId() + " " + r.getOffsetMsgId() + " " + r.getMessageQueue().getQueueId() + " " + r.getQueueOffset());
        }
        if (!open.await(60, TimeUnit.SECONDS)) throw new IllegalStateException(open.getCount() + " messages were not consumed");
    }
}
