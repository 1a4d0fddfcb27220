import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.namesrv.NamesrvStartup;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own client library and tools, driven by lines of JSON: {"op": …} in, {"ok": …} or {"error": …} out.
 * A name server runs in the same process: Driver PORT CONFIG BROKER_NAME.
 */
public class Driver {
    static final String CLUSTER = "DefaultCluster";
    static String nameServer;
    static String brokerName;
    static DefaultMQAdminExt admin;
    static DefaultMQProducer producer;
    static DefaultMQPullConsumer puller;

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);  // the tools and servers print; answers go to the real one
        nameServer = "127.0.0.1:" + args[0];
        NamesrvStartup.main0(new String[] {"-c", args[1]});
        brokerName = args[2];
        out.println("{\"ok\":\"ready\"}");
        out.flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", run(JSON.parseObject(line)));
            } catch (Throwable e) {
                e.printStackTrace();
                answer.put("error", String.valueOf(e));
            }
            out.write(answer.toString().getBytes(StandardCharsets.UTF_8));
            out.write('\n');
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static Object run(JSONObject ask) throws Exception {
        switch (ask.getString("op")) {
            case "connect": return connect();
            case "disconnect": return disconnect();
            case "createTopic": return createTopic(ask);
            case "topics": return admin.fetchAllTopicList().getTopicList();
            case "offsets": return offsets(ask.getString("topic"));
            case "pull": return pull(ask);
            case "byKey": return byKey(ask);
            case "byUniqueKey": return byUniqueKey(ask);
            case "byOffsetId": return shown(admin.viewMessage(ask.getString("topic"), ask.getString("id")));
            case "offsetByTime": return puller.searchOffset(queue(ask), ask.getLongValue("time"));
            case "committed": return committed(ask);
            case "send": return send(ask);
            case "consume": return consume(ask);
            case "mqadmin": return mqadmin(ask.getList("args", String.class));
            default: throw new IllegalArgumentException("no such op: " + ask);
        }
    }

    /** Fresh clients for each broker process, so that nothing is remembered of the one before. */
    static Object connect() throws Exception {
        String instance = UUID.randomUUID().toString();
        admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("a" + instance);
        admin.start();
        producer = new DefaultMQProducer("PID_litemq_clients");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("p" + instance);
        producer.setSendMsgTimeout(10000);
        producer.setCompressMsgBodyOverHowmuch(2000);
        producer.start();
        puller = puller("GID_litemq_clients", instance);
        long end = System.currentTimeMillis() + 30000;
        while (!admin.examineBrokerClusterInfo().getBrokerAddrTable().containsKey(brokerName)) {
            if (System.currentTimeMillis() > end) throw new IllegalStateException("the broker did not register");
            Thread.sleep(50);
        }
        return brokerName;
    }

    static DefaultMQPullConsumer puller(String group, String instance) throws MQClientException {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("c" + instance);
        consumer.start();
        return consumer;
    }

    /** Each takes seconds to say good-bye; nobody waits for that. */
    static Object disconnect() {
        DefaultMQPullConsumer c = puller;
        DefaultMQProducer p = producer;
        DefaultMQAdminExt a = admin;
        for (Runnable end : new Runnable[] {c::shutdown, p::shutdown, a::shutdown}) new Thread(end).start();
        return null;
    }

    static MessageQueue queue(JSONObject ask) {
        return new MessageQueue(ask.getString("topic"), brokerName, ask.getIntValue("queue"));
    }

    static Object createTopic(JSONObject ask) throws Exception {
        TopicConfig config = new TopicConfig(ask.getString("topic"));
        config.setReadQueueNums(ask.getIntValue("queues"));
        config.setWriteQueueNums(ask.getIntValue("queues"));
        String address = admin.examineBrokerClusterInfo().getBrokerAddrTable().get(brokerName).selectBrokerAddr();
        admin.createAndUpdateTopicConfig(address, config);
        return address;
    }

    /** Queue id to [min, max] as the broker states them. */
    static Object offsets(String topic) throws Exception {
        Map<String, long[]> answer = new TreeMap<>();
        for (Map.Entry<MessageQueue, TopicOffset> e : admin.examineTopicStats(topic).getOffsetTable().entrySet())
            answer.put("" + e.getKey().getQueueId(), new long[] {e.getValue().getMinOffset(), e.getValue().getMaxOffset()});
        return answer;
    }

    /** Every message of a queue from an offset to its end. */
    static Object pull(JSONObject ask) throws Exception {
        MessageQueue queue = queue(ask);
        long at = ask.getLongValue("from"), end = puller.maxOffset(queue);
        JSONArray answer = new JSONArray();
        long stop = System.currentTimeMillis() + 30000;
        while (at < end) {
            PullResult result = puller.pull(queue, ask.getOrDefault("tags", "*").toString(), at, 32, 10000);
            if (result.getPullStatus() == PullStatus.FOUND) for (MessageExt m : result.getMsgFoundList()) answer.add(shown(m));
            if (result.getNextBeginOffset() <= at && System.currentTimeMillis() > stop)
                throw new IllegalStateException("no way on at offset " + at + ": " + result);
            at = Math.max(at, result.getNextBeginOffset());
        }
        return answer;
    }

    static JSONObject shown(MessageExt m) {
        JSONObject o = new JSONObject();
        o.put("topic", m.getTopic());
        o.put("queue", m.getQueueId());
        o.put("offset", m.getQueueOffset());
        o.put("position", m.getCommitLogOffset());
        o.put("size", m.getStoreSize());
        o.put("body", m.getBody() == null ? "" : Base64.getEncoder().encodeToString(m.getBody()));
        o.put("tags", m.getTags());
        o.put("keys", m.getKeys());
        o.put("properties", m.getProperties());
        o.put("flag", m.getFlag());
        o.put("sysFlag", m.getSysFlag());
        o.put("bornTime", m.getBornTimestamp());
        o.put("storeTime", m.getStoreTimestamp());
        o.put("bornHost", host(m.getBornHost()));
        o.put("storeHost", host(m.getStoreHost()));
        o.put("reconsumeTimes", m.getReconsumeTimes());
        o.put("preparedOffset", m.getPreparedTransactionOffset());
        o.put("id", m.getMsgId());
        if (m instanceof MessageClientExt) o.put("offsetId", ((MessageClientExt) m).getOffsetMsgId());
        return o;
    }

    static Object host(SocketAddress address) {
        InetSocketAddress a = (InetSocketAddress) address;
        return new Object[] {a.getAddress().getHostAddress(), a.getPort()};
    }

    static JSONArray found(org.apache.rocketmq.client.QueryResult result) {
        JSONArray answer = new JSONArray();
        if (result != null) for (MessageExt m : result.getMessageList()) answer.add(shown(m));
        return answer;
    }

    static Object byKey(JSONObject ask) throws Exception {
        try {
            return found(admin.queryMessage(ask.getString("topic"), ask.getString("key"), 64, 0, Long.MAX_VALUE));
        } catch (MQClientException e) {
            return nothing(e);
        }
    }

    static Object byUniqueKey(JSONObject ask) throws Exception {
        try {
            return found(admin.queryMessageByUniqKey(CLUSTER, ask.getString("topic"), ask.getString("id"), 32, 0, Long.MAX_VALUE));
        } catch (MQClientException e) {
            return nothing(e);
        }
    }

    static JSONArray nothing(MQClientException e) throws MQClientException {
        if (String.valueOf(e.getMessage()).contains("no message")) return new JSONArray();
        throw e;
    }

    static Object committed(JSONObject ask) throws Exception {
        DefaultMQPullConsumer consumer = puller(ask.getString("group"), UUID.randomUUID().toString());
        try {
            Map<String, Long> answer = new TreeMap<>();
            for (int q = 0; q < ask.getIntValue("queues"); q++)
                answer.put("" + q, consumer.fetchConsumeOffset(new MessageQueue(ask.getString("topic"), brokerName, q), true));
            return answer;
        } finally {
            consumer.shutdown();
        }
    }

    static Object send(JSONObject ask) throws Exception {
        JSONArray answer = new JSONArray();
        for (Object item : ask.getJSONArray("messages")) {
            JSONObject o = (JSONObject) item;
            Message m = new Message(ask.getString("topic"), Base64.getDecoder().decode(o.getString("body")));
            if (o.containsKey("tags")) m.setTags(o.getString("tags"));
            if (o.containsKey("keys")) m.setKeys(o.getString("keys"));
            if (o.containsKey("level")) m.setDelayTimeLevel(o.getIntValue("level"));
            JSONObject properties = o.getJSONObject("properties");
            if (properties != null) for (String name : properties.keySet()) m.putUserProperty(name, properties.getString(name));
            SendResult result = o.containsKey("queue")
                ? producer.send(m, new MessageQueue(m.getTopic(), brokerName, o.getIntValue("queue"))) : producer.send(m);
            JSONObject sent = new JSONObject();
            sent.put("status", "" + result.getSendStatus());
            sent.put("queue", result.getMessageQueue().getQueueId());
            sent.put("offset", result.getQueueOffset());
            sent.put("id", result.getMsgId());
            sent.put("offsetId", result.getOffsetMsgId());
            answer.add(sent);
        }
        return answer;
    }

    /** What a push consumer of a group gets until it has so many, or the time is over. */
    static Object consume(JSONObject ask) throws Exception {
        List<JSONObject> got = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(ask.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(UUID.randomUUID().toString());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(ask.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) got.add(shown(m));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            long end = System.currentTimeMillis() + 1000 * ask.getLongValue("seconds");
            while (got.size() < ask.getIntValue("count") && System.currentTimeMillis() < end) Thread.sleep(20);
            Thread.sleep(300);  // one too many would come now
        } finally {
            consumer.shutdown();
        }
        return new ArrayList<>(got);
    }

    static Object mqadmin(List<String> args) {
        PrintStream before = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true));
        try {
            List<String> all = new ArrayList<>(args);
            all.add("-n");
            all.add(nameServer);
            MQAdminStartup.main0(all.toArray(new String[0]), null);
        } finally {
            System.setOut(before);
        }
        return said.toString(StandardCharsets.UTF_8);
    }
}
