package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Every way to send, and what is in a message.
func registerSending() {
	scenario("sync-send", syncSend)
	scenario("async-send", asyncSend)
	scenario("one-way-send", oneWaySend)
	scenario("batch-send", batchSend)
	scenario("compression", compression)
	scenario("large-bodies", largeBodies)
	scenario("properties-and-unicode", properties)
	scenario("auto-created-topic", autoCreated)
	scenario("vip-port", vipPort)
	scenario("first-name-server-is-dead", deadNameServer)
	scenario("admin-topics", adminTopics)
	ours("delayed-send-refused", delayedRefused)
}

func syncSend(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	p := k.producer()
	results := map[string]*primitive.SendResult{}
	for _, body := range numbered("s", 60) {
		m := message(topic, "TagA", body).WithKeys([]string{"key-" + body, "common"})
		m.WithProperty("number", body[1:])
		m.Flag = int32(len(results))
		results[body] = send(p, m)
	}
	s.expect(numbered("s", 60))
	queues := map[int]bool{}
	for _, m := range s.messages() {
		r := results[string(m.Body)]
		equal(r.MsgID, m.MsgId, "message id")
		equal(r.OffsetMsgID, m.OffsetMsgId, "offset message id")
		equal(r.QueueOffset, m.QueueOffset, "queue offset")
		equal(r.MessageQueue.QueueId, m.Queue.QueueId, "queue")
		equal("TagA", m.GetTags(), "tags")
		check(strings.Contains(m.GetKeys(), "key-"+string(m.Body)), "keys %s", m.GetKeys())
		equal(string(m.Body[1:]), m.GetProperty("number"), "property")
		equal(brokerAddress, m.StoreHost, "store host")
		equal(0, m.ReconsumeTimes, "reconsume times")
		queues[m.Queue.QueueId] = true
	}
	equal(4, len(queues), "the number of queues in use")
}

func asyncSend(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	p := k.producer()
	var waiting sync.WaitGroup
	var good int32
	bodies := numbered("a", 200)
	for _, body := range bodies {
		waiting.Add(1)
		must(p.SendAsync(background, func(_ context.Context, r *primitive.SendResult, err error) {
			if err == nil && r.Status == primitive.SendOK {
				atomic.AddInt32(&good, 1)
			}
			waiting.Done()
		}, message(topic, "", body)))
	}
	waiting.Wait()
	equal(len(bodies), good, "the number of good answers")
	s.expect(bodies)
}

func oneWaySend(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	p := k.producer()
	bodies := numbered("o", 60)
	for _, body := range bodies {
		must(p.SendOneWay(background, message(topic, "", body)))
	}
	s.expect(bodies)
}

func batchSend(k *kit) {
	topic := k.topic("t", 4)
	all := k.sink(k.group("all"), topic, byTag("*"), nil)
	odd := k.sink(k.group("odd"), topic, byTag("odd"), nil)
	var batch []*primitive.Message
	bodies, odds := numbered("b", 30), []string{}
	for i, body := range bodies {
		tag := "even"
		if i%2 == 1 {
			tag = "odd"
			odds = append(odds, body)
		}
		m := message(topic, tag, body)
		m.WithProperty("index", fmt.Sprint(i))
		batch = append(batch, m)
	}
	r := send(k.producer(), batch...)
	all.expect(bodies)
	odd.expect(odds)
	for _, m := range all.messages() {
		equal(r.MessageQueue.QueueId, m.Queue.QueueId, "queue")
		equal(fmt.Sprintf("b%04s", m.GetProperty("index")), string(m.Body), "body")
		equal(m.GetProperty("index"), m.QueueOffset-r.QueueOffset, "offset in the batch")
	}
}

func compression(k *kit) {
	topic := k.topic("t", 2)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	text := strings.Repeat("squeeze me, ", 50000)
	var bodies []string
	for _, level := range []int{1, 5, 9} {
		body := fmt.Sprint(level, text)
		send(k.producer(producer.WithCompressLevel(level), producer.WithCompressMsgBodyOverHowmuch(1000)), message(topic, "", body))
		bodies = append(bodies, body)
	}
	s.expect(bodies)
	for _, m := range s.messages() {
		check(m.StoreSize < 60000, "stored in %d bytes", m.StoreSize)
	}
}

func largeBodies(k *kit) {
	topic := k.topic("t", 1)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	p := k.producer(producer.WithCompressMsgBodyOverHowmuch(1<<30), producer.WithRetry(0), producer.WithSendMsgTimeout(30*time.Second))
	limit := 4 << 20
	var bodies []string
	for _, size := range []int{limit, 1, limit - 1, 1 << 20} {
		bodies = append(bodies, strings.Repeat("x", size))
		send(p, message(topic, "", bodies[len(bodies)-1]))
	}
	s.expect(bodies)
	_, err := p.SendSync(background, message(topic, "", strings.Repeat("x", limit+1)))
	check(err != nil && strings.Contains(err.Error(), "CODE: 13"), "a body over 4 MiB gave %v", err)
	send(p, message(topic, "", "the connection still works"))
}

func properties(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("exercise || label"), nil)
	p := k.producer()
	values := []string{"grün", "消息队列", "🚀 rocket", " spaces  kept ", "a=b&c;d,e{}[]\"'\\", strings.Repeat("x", 20000), "0"}
	for _, tag := range []string{"exercise", "label", "other"} {
		m := message(topic, tag, "ключ "+tag)
		for i, value := range values {
			m.WithProperty(fmt.Sprint("name ", i, " é"), value)
		}
		send(p, m)
	}
	s.expect([]string{"ключ exercise", "ключ label"})
	for _, m := range s.messages() {
		for i, value := range values {
			equal(value, m.GetProperty(fmt.Sprint("name ", i, " é")), "property")
		}
	}
	m := message(topic, "", "too much")
	m.WithProperty("long", strings.Repeat("y", 33000))
	_, err := p.SendSync(background, m)
	check(err != nil && strings.Contains(err.Error(), "CODE: 13"), "33 000 bytes of properties gave %v", err)
}

func autoCreated(k *kit) {
	topic := k.name("unheard-of")
	bodies := numbered("n", 8)
	sendAll(k.producer(), topic, bodies)
	k.sink(k.group("g"), topic, byTag("*"), nil).expect(bodies)
}

func vipPort(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil, consumer.WithVIPChannel(true))
	bodies := numbered("v", 20)
	sendAll(k.producer(producer.WithVIPChannel(true)), topic, bodies)
	s.expect(bodies)
}

func deadNameServer(k *kit) {
	topic := k.topic("t", 4)
	both := []string{"127.0.0.1:1", nameServer}
	s := k.sink(k.group("g"), topic, byTag("*"), nil, consumer.WithNameServer(both))
	bodies := numbered("d", 10)
	sendAll(k.producer(producer.WithNameServer(both)), topic, bodies)
	s.expect(bodies)
}

func adminTopics(k *kit) {
	topic := k.topic("made", 5)
	isListed := func() bool {
		found, err := tools.FetchAllTopicList(background)
		must(err)
		for _, name := range found.TopicList {
			if name == topic {
				return true
			}
		}
		return false
	}
	await(10, isListed, func() string { return "the topic is not listed" })
	groups, err := tools.GetAllSubscriptionGroup(background, brokerAddress, 5*time.Second)
	must(err)
	check(groups.SubscriptionGroupTable != nil, "no groups")
	must(tools.DeleteTopic(background, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(brokerAddress),
		admin.WithNameSrvAddr([]string{nameServer})))
	await(10, func() bool { return !isListed() }, func() string { return "the topic is still listed" })
}

func delayedRefused(k *kit) {
	topic := k.topic("t", 4)
	p := k.producer(producer.WithRetry(0))
	level := message(topic, "", "level").WithDelayTimeLevel(3)
	moment := message(topic, "", "moment")
	moment.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(time.Now().Add(3*time.Second).UnixMilli()))
	for _, m := range []*primitive.Message{level, moment} {
		_, err := p.SendSync(background, m)
		check(err != nil && strings.Contains(err.Error(), "CODE: 13") && strings.Contains(strings.ToLower(err.Error()), "delay"),
			"a delay by %s gave %v", m.Body, err)
	}
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	send(p, message(topic, "", "plain"))
	s.expect([]string{"plain"})
}
