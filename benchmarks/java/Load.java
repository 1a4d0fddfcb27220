import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Loads a broker through RocketMQ's own client library, unchanged and with its defaults.
 *
 * <p>One process serves many runs, so that its code stays compiled: each line of its input is a command with
 * name=value options; it answers "begin" and "end" around the measured time and then one line of JSON.
 */
public final class Load {
    private static final int WORST_US = 1 << 17;

    private final String nameServer;
    private final Map<String, String> options;

    private Load(String nameServer, Map<String, String> options) {
        this.nameServer = nameServer;
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            Map<String, String> options = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                options.put(pair[0], pair[1]);
            }
            try {
                new Load(arguments[0], options).run(words[0]);
            } catch (Exception error) {
                System.out.println("{\"error\":\"" + error.toString().replaceAll("[^ -!#-\\[\\]-~]", " ") + "\"}");
            }
        }
        System.exit(0);
    }

    private void run(String command) throws Exception {
        switch (command) {
            case "send" -> send(producer(), DefaultMQProducer::send, 1);
            case "batch" -> send(producer(), (producer, message) -> producer.send(batch(number("batch"))), number("batch"));
            case "transact" -> send(transactionProducer(), Load::transact, 1);
            case "async" -> async();
            case "consume" -> consume();
            case "latency" -> latency();
            default -> throw new IllegalArgumentException("no command " + command);
        }
    }

    // -- sending --------------------------------------------------------------------------------------------------

    /** What one thread does again and again. */
    private interface Call {
        SendResult on(DefaultMQProducer producer, Message message) throws Exception;
    }

    /** A transaction that is committed at once; the client sends its end without waiting for an answer. */
    private static SendResult transact(DefaultMQProducer producer, Message message) throws Exception {
        TransactionSendResult result = ((TransactionMQProducer) producer).sendMessageInTransaction(message, null);
        if (result.getLocalTransactionState() != LocalTransactionState.COMMIT_MESSAGE) {
            throw new IllegalStateException("a transaction ended as " + result.getLocalTransactionState());
        }
        return result;
    }

    /** Blocking threads that share one producer, each with one request in flight. */
    private void send(DefaultMQProducer producer, Call call, int perCall) throws Exception {
        int threads = number("threads");
        LongAdder sent = new LongAdder();
        LongAdder refused = new LongAdder();
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicBoolean isMeasured = new AtomicBoolean();
        int[][] counts = new int[threads][WORST_US];
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int[] mine = counts[i];
            Thread thread = new Thread(() -> {
                while (!isOver.get()) {
                    long began = System.nanoTime();
                    try {
                        SendResult result = call.on(producer, message());
                        if (result.getSendStatus() == SendStatus.SEND_OK) {
                            sent.add(perCall);
                        } else {
                            refused.increment();
                        }
                    } catch (Exception error) {
                        complain(refused, error);
                    }
                    if (isMeasured.get()) {
                        mine[(int) Math.min(WORST_US - 1, (System.nanoTime() - began) / 1000)]++;
                    }
                }
            });
            running.add(thread);
            thread.start();
        }
        Thread.sleep(millis("warm"));
        long before = begin(sent);
        isMeasured.set(true);
        long began = System.nanoTime();
        Thread.sleep(millis("seconds"));
        double seconds = (System.nanoTime() - began) / 1e9;
        long measured = sent.sum() - before;
        say("end");
        isOver.set(true);
        for (Thread thread : running) {
            thread.join();
        }
        producer.shutdown();
        int[] all = new int[WORST_US];
        for (int[] mine : counts) {
            for (int us = 0; us < WORST_US; us++) {
                all[us] += mine[us];
            }
        }
        say(String.format("{\"rate\":%.0f,\"measured\":%d,\"seconds\":%.3f,\"p50_us\":%d,\"p99_us\":%d,\"answered\":%d,"
            + "\"refused\":%d}", measured / seconds, measured, seconds, share(all, 0.5), share(all, 0.99), sent.sum(), refused.sum()));
    }

    /** One thread that keeps a window of asynchronous sends in flight. */
    private void async() throws Exception {
        DefaultMQProducer producer = producer();
        Semaphore window = new Semaphore(number("window"));
        LongAdder sent = new LongAdder();
        LongAdder refused = new LongAdder();
        AtomicBoolean isOver = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            while (!isOver.get()) {
                window.acquireUninterruptibly();
                try {
                    producer.send(message(), new SendCallback() {
                        @Override
                        public void onSuccess(SendResult result) {
                            sent.increment();
                            window.release();
                        }

                        @Override
                        public void onException(Throwable error) {
                            complain(refused, error);
                            window.release();
                        }
                    });
                } catch (Exception error) {
                    complain(refused, error);
                    window.release();
                }
            }
        });
        thread.start();
        Thread.sleep(millis("warm"));
        long before = begin(sent);
        long began = System.nanoTime();
        Thread.sleep(millis("seconds"));
        double seconds = (System.nanoTime() - began) / 1e9;
        long measured = sent.sum() - before;
        say("end");
        isOver.set(true);
        thread.join();
        window.acquireUninterruptibly(number("window"));
        producer.shutdown();
        say(String.format("{\"rate\":%.0f,\"measured\":%d,\"seconds\":%.3f,\"answered\":%d,\"refused\":%d}",
            measured / seconds, measured, seconds, sent.sum(), refused.sum()));
    }

    // -- consuming ------------------------------------------------------------------------------------------------

    /** A new group reads a backlog of `count` messages; measured are the eight tenths in the middle. */
    private void consume() throws Exception {
        long count = number("count");
        LongAdder consumed = new LongAdder();
        DefaultMQPushConsumer consumer = consumer((messages, context) -> {
            consumed.add(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        long limit = System.nanoTime() + 1_000_000L * millis("limit");
        await(consumed, count / 10, limit);
        long before = begin(consumed);
        long began = System.nanoTime();
        await(consumed, count * 9 / 10, limit);
        double seconds = (System.nanoTime() - began) / 1e9;
        long measured = consumed.sum() - before;
        say("end");
        await(consumed, count, limit);
        consumer.shutdown();
        say(String.format("{\"rate\":%.0f,\"measured\":%d,\"seconds\":%.3f,\"consumed\":%d,\"refused\":%d}",
            measured / seconds, measured, seconds, consumed.sum(), Math.max(0, count - consumed.sum())));
    }

    private static void await(LongAdder consumed, long count, long limit) throws Exception {
        while (consumed.sum() < count) {
            if (System.nanoTime() > limit) {
                throw new IllegalStateException("only " + consumed.sum() + " messages came in time, not " + count);
            }
            Thread.sleep(1);
        }
    }

    /** Sends at a fixed rate, whatever the broker does, and consumes beside it; latency counts from the intended send. */
    private void latency() throws Exception {
        int rate = number("rate");
        long warm = (long) rate * millis("warm") / 1000;
        int count = (int) (warm + (long) rate * millis("seconds") / 1000);
        long[] latencies = new long[count];
        LongAdder consumed = new LongAdder();
        LongAdder refused = new LongAdder();
        AtomicLong known = new AtomicLong();
        String run = Long.toString(System.nanoTime());
        DefaultMQPushConsumer consumer = consumer((messages, context) -> {
            long now = System.nanoTime();
            messages.forEach(message -> {
                if (!run.equals(message.getTags())) {
                    return;
                }
                ByteBuffer body = ByteBuffer.wrap(message.getBody());
                int number = body.getInt();
                if (number < 0) {
                    known.incrementAndGet();
                } else if (latencies[number] == 0) {
                    latencies[number] = Math.max(1, now - body.getLong());
                    consumed.increment();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer();
        for (int i = 0; known.get() < 64; i++) {  // until the consumer has its queues
            if (i > 3000) {
                throw new IllegalStateException("the consumer got nothing for 30 s");
            }
            producer.send(numbered(-1, run));
            Thread.sleep(10);
        }
        long start = System.nanoTime() + 10_000_000L;
        for (int i = 0; i < count; i++) {
            long due = start + (long) (i * 1e9 / rate);
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            if (i == warm) {
                say("begin");
            }
            producer.send(numbered(i, run, due), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                }

                @Override
                public void onException(Throwable error) {
                    complain(refused, error);
                }
            });
        }
        say("end");
        for (int i = 0; consumed.sum() < count && i < 1000; i++) {
            Thread.sleep(10);
        }
        consumer.shutdown();
        producer.shutdown();
        long[] measured = Arrays.stream(latencies, (int) warm, count).filter(ns -> ns > 0).sorted().toArray();
        say(String.format("{\"rate\":%d,\"measured\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"mean_us\":%.1f,"
            + "\"lost\":%d,\"refused\":%d}", rate, measured.length, measured[measured.length / 2] / 1e3,
            measured[measured.length * 99 / 100] / 1e3, measured[measured.length - 1] / 1e3,
            Arrays.stream(measured).average().orElse(0) / 1e3, count - consumed.sum(), refused.sum()));
    }

    // -- parts ----------------------------------------------------------------------------------------------------

    private DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer("benchmark_producer"));
    }

    private DefaultMQProducer transactionProducer() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("benchmark_transactions");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return started(producer);
    }

    private DefaultMQProducer started(DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(Long.toString(System.nanoTime()));
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer consumer(MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.get("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(Long.toString(System.nanoTime()));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.get("topic"), "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private Message message() {
        byte[] body = new byte[number("body")];
        Arrays.fill(body, (byte) 'a');
        return new Message(options.get("topic"), body);
    }

    private List<Message> batch(int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            messages.add(message());
        }
        return messages;
    }

    private Message numbered(int number, String run, long... due) {
        Message message = message();
        message.setTags(run);
        ByteBuffer body = ByteBuffer.wrap(message.getBody()).putInt(number);
        for (long ns : due) {
            body.putLong(ns);
        }
        return message;
    }

    private int number(String name) {
        return Integer.parseInt(options.get(name));
    }

    private long millis(String name) {
        return (long) (Double.parseDouble(options.get(name)) * 1000);
    }

    private static long begin(LongAdder counter) {
        say("begin");
        return counter.sum();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void complain(LongAdder refused, Throwable error) {
        if (refused.sum() == 0) {
            System.err.println(error);
        }
        refused.increment();
    }

    private static int share(int[] counts, double share) {
        long total = Arrays.stream(counts).asLongStream().sum();
        long seen = 0;
        for (int us = 0; us < counts.length; us++) {
            seen += counts[us];
            if (seen > total * share) {
                return us;
            }
        }
        return 0;
    }
}
