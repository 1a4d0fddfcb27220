import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;

/**
 * The Java client as the other side of the Python SDK's tests: Interop NAME_SERVER RUN SERVER.
 * Lines of JSON, {"op": …} in, {"ok": …} or {"error": …} out; interop.go answers to the same words.
 */
public class Interop {
    static final Map<String, Listener> LISTENERS = new ConcurrentHashMap<>();
    static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    static Kit kit;

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Kit.connect(args[0], args[1], args[2].equals("litemq"));
        kit = new Kit("interop");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", run(JSON.parseObject(line)));
            } catch (Throwable e) {
                e.printStackTrace();
                answer.put("error", String.valueOf(e));
            }
            out.write((answer + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static Object run(JSONObject ask) throws Exception {
        Listener listener = LISTENERS.get(String.valueOf(ask.getString("name")));
        switch (ask.getString("op")) {
            case "listen": return listen(ask);
            case "got": return listener.got.stream().skip(ask.getIntValue("after")).collect(Collectors.toList());
            case "queues": return listener.queues(ask.getString("topic"));
            case "stop": LISTENERS.remove(ask.getString("name")).consumer.shutdown(); return null;
            case "send": return send(ask);
            case "batch": return batch(ask);
            case "request": return request(ask);
            case "info": return info(ask);
            case "directly": return directly(ask);
            case "reset": return Kit.admin.resetOffsetByTimestamp(ask.getString("topic"), ask.getString("group"), ask.getLongValue("time"), true).size();
            default: throw new IllegalArgumentException("no such op: " + ask);
        }
    }

    /** A push consumer that keeps what it gets, fails some of it for a while, and replies if it is told to. */
    static class Listener {
        final List<JSONObject> got = new CopyOnWriteArrayList<>();
        final DefaultMQPushConsumer consumer;
        private final JSONObject failing;
        private final Map<String, Integer> failed = new ConcurrentHashMap<>();
        private final boolean replies;

        Listener(JSONObject ask) {
            consumer = kit.consumer(ask.getString("group"));
            if (ask.getBooleanValue("hashed"))
                consumer.setAllocateMessageQueueStrategy(new AllocateMessageQueueConsistentHash());
            failing = ask.containsKey("failing") ? ask.getJSONObject("failing") : new JSONObject();
            replies = ask.getBooleanValue("replies");
            if (ask.getBooleanValue("ordered"))
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                    take(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
            else
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    context.setDelayLevelWhenNextConsume(ask.getBooleanValue("rejects") ? -1 : 1);
                    return take(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
                });
        }

        private boolean take(List<MessageExt> messages) {
            boolean good = true;
            for (MessageExt m : messages) {
                if (m.getBody() == null) m.setBody(new byte[0]);  // what this client makes of an empty one
                int limit = failing.getIntValue(Kit.body(m));
                boolean isGood = limit == 0 || failed.merge(Kit.body(m), 1, Integer::sum) > limit;
                JSONObject shown = Interop.shown(m);
                shown.put("good", isGood);
                got.add(shown);
                good &= isGood;
                if (replies) reply(m);
            }
            return good;
        }

        private void reply(MessageExt m) {
            try {
                Message answer = MessageUtil.createReplyMessage(m, Kit.bytes("answer to " + Kit.body(m)));
                answer.setTags("answered");
                answer.putUserProperty("by", "java");
                producer("zlib").send(answer, 5000);
            } catch (Exception e) {
                e.printStackTrace();
            }
        }

        List<Integer> queues(String topic) {
            return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(q -> q.getTopic().equals(topic)).map(MessageQueue::getQueueId).sorted().collect(Collectors.toList());
        }
    }

    static Object listen(JSONObject ask) throws Exception {
        Listener listener = new Listener(ask);
        LISTENERS.put(ask.getString("name"), listener);
        listener.consumer.subscribe(ask.getString("topic"), ask.containsKey("tags") ? ask.getString("tags") : "*");
        listener.consumer.start();
        return listener.consumer.buildMQClientId();
    }

    static JSONObject shown(MessageExt m) {
        JSONObject o = new JSONObject();
        o.put("topic", m.getTopic());
        o.put("queue", m.getQueueId());
        o.put("offset", m.getQueueOffset());
        o.put("body", Base64.getEncoder().encodeToString(m.getBody()));
        o.put("properties", m.getProperties());
        o.put("size", m.getStoreSize());
        o.put("attempt", m.getReconsumeTimes() + 1);
        o.put("id", m.getMsgId());
        if (m instanceof MessageClientExt) o.put("offsetId", ((MessageClientExt) m).getOffsetMsgId());
        o.put("born", m.getBornTimestamp());
        return o;
    }

    /** A producer for each compression; one that is not named leaves bodies as they are. */
    static synchronized DefaultMQProducer producer(String compression) throws Exception {
        String name = String.valueOf(compression);
        if (!PRODUCERS.containsKey(name))
            PRODUCERS.put(name, kit.producer(p -> {
                p.setCompressMsgBodyOverHowmuch(compression == null ? Integer.MAX_VALUE : 1000);
                if (compression != null) p.setCompressType(CompressionType.of(compression.toUpperCase()));
            }));
        return PRODUCERS.get(name);
    }

    static Message message(String topic, JSONObject o) {
        Message m = new Message(topic, Base64.getDecoder().decode(o.getString("body")));
        if (o.containsKey("tags")) m.setTags(o.getString("tags"));
        if (o.containsKey("keys")) m.setKeys(o.getList("keys", String.class));
        if (o.containsKey("key")) MessageAccessor.putProperty(m, MessageConst.PROPERTY_SHARDING_KEY, o.getString("key"));
        JSONObject properties = o.getJSONObject("properties");
        if (properties != null) for (String name : properties.keySet()) m.putUserProperty(name, properties.getString(name));
        return m;
    }

    static JSONObject sent(SendResult result) {
        Kit.sent(result);
        JSONObject o = new JSONObject();
        o.put("id", result.getMsgId());
        o.put("broker", result.getMessageQueue().getBrokerName());
        o.put("queue", result.getMessageQueue().getQueueId());
        o.put("offset", result.getQueueOffset());
        return o;
    }

    static Object send(JSONObject ask) throws Exception {
        DefaultMQProducer producer = producer(ask.getString("compression"));
        JSONArray answer = new JSONArray();
        for (Object item : ask.getJSONArray("messages")) {
            JSONObject o = (JSONObject) item;
            Message m = message(ask.getString("topic"), o);
            answer.add(sent(o.containsKey("key") ? producer.send(m, new SelectMessageQueueByHash(), o.getString("key")) : producer.send(m)));
        }
        return answer;
    }

    static Object batch(JSONObject ask) throws Exception {
        List<Message> all = new ArrayList<>();
        for (Object item : ask.getJSONArray("messages")) all.add(message(ask.getString("topic"), (JSONObject) item));
        return sent(producer(null).send(all));
    }

    static Object request(JSONObject ask) throws Exception {
        Message m = message(ask.getString("topic"), ask.getJSONObject("message"));
        MessageExt answer = (MessageExt) producer(null).request(m, ask.getLongValue("ms"));
        JSONObject o = new JSONObject();
        o.put("body", Base64.getEncoder().encodeToString(answer.getBody()));
        o.put("properties", answer.getProperties());
        return o;
    }

    // -- what the tools ask of a consumer of any language --------------------------------------------

    static Object info(JSONObject ask) throws Exception {
        String group = ask.getString("group"), client = ask.getString("client");
        ConsumerConnection connection = Kit.admin.examineConsumerConnectionInfo(group);
        ConsumerRunningInfo info = Kit.admin.getConsumerRunningInfo(group, client, false);
        JSONObject o = new JSONObject();
        o.put("members", connection.getConnectionSet().stream().map(c -> c.getClientId()).collect(Collectors.toList()));
        o.put("model", String.valueOf(connection.getMessageModel()));
        o.put("type", String.valueOf(connection.getConsumeType()));
        o.put("from", String.valueOf(connection.getConsumeFromWhere()));
        o.put("tags", connection.getSubscriptionTable().get(ask.getString("topic")).getSubString());
        o.put("queues", info.getMqTable().keySet().stream().filter(q -> q.getTopic().equals(ask.getString("topic")))
            .map(MessageQueue::getQueueId).sorted().collect(Collectors.toList()));
        o.put("topics", info.getSubscriptionSet().stream().map(s -> s.getTopic()).sorted().collect(Collectors.toList()));
        o.put("shown", info.formatString());
        return o;
    }

    static Object directly(JSONObject ask) throws Exception {
        ConsumeMessageDirectlyResult result = Kit.admin.consumeMessageDirectly(
            ask.getString("group"), ask.getString("client"), ask.getString("topic"), ask.getString("id"));
        return result.getConsumeResult() + " " + result.getRemark();
    }
}
