package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Filters, order, broadcast, retries, pulls, members that come and go.
func registerReceiving() {
	scenario("dead-letter", deadLetter)
	scenario("retry-then-success", retryThenSuccess)
	scenario("join-and-leave", joinAndLeave)
	scenario("order-by-key", orderByKey)
	scenario("global-order", globalOrder)
	scenario("commit-and-continue", commitAndContinue)
	scenario("poll", poll)
	scenario("pull-from", pullFrom)
	scenario("broadcast", broadcast)
	scenario("first-start-of-a-group", firstStart)
	scenario("tags", tags)
	scenario("sql92", sql)
	restarting("broker-stopped-and-started", func(k *kit) { working(k, "stop and start the broker") })
	restarting("name-server-stopped-and-started", func(k *kit) { working(k, "stop and start the name server") })
}

// introduce makes a group known to the broker, with its retry topic, so that a consumer's first look finds that.
func (k *kit) introduce(group, topic string) {
	first := k.sink(group, topic, byTag("nosuchtag"), nil)
	await(20, func() bool {
		found, err := tools.FetchPublishMessageQueues(background, "%RETRY%"+group)
		return err == nil && len(found) > 0
	}, func() string { return "no route of the retry topic" })
	must(first.consumer.Shutdown())
}

func later(level int) verdict {
	return func(c context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		if current, is := primitive.GetConcurrentlyCtx(c); is {
			current.DelayLevelWhenNextConsume = level
		}
		return consumer.ConsumeRetryLater
	}
}

func retryThenSuccess(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	k.introduce(group, topic)
	s := k.sink(group, topic, byTag("*"), func(c context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		if m.ReconsumeTimes < 2 {
			return later(1)(c, m)
		}
		return consumer.ConsumeSuccess
	})
	m := message(topic, "TagR", "again").WithKeys([]string{"kept"})
	m.WithProperty("user", "kept too")
	first := send(k.producer(), m)
	s.expect([]string{"again", "again", "again"})
	for i, again := range s.messages() {
		equal(i, again.ReconsumeTimes, "reconsume times")
		equal(topic, again.Topic, "topic")
		equal("kept too", again.GetProperty("user"), "user property")
		if i > 0 {
			equal(first.OffsetMsgID, again.GetProperty("ORIGIN_MESSAGE_ID"), "origin")
		}
	}
}

func deadLetter(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	k.introduce(group, topic)
	s := k.sink(group, topic, byTag("*"), later(1), consumer.WithMaxReconsumeTimes(1))
	first := send(k.producer(), message(topic, "TagD", "poison"))
	dead := "%DLQ%" + group
	await(60, func() bool {
		found, err := tools.FetchPublishMessageQueues(background, dead)
		return err == nil && len(found) > 0
	}, func() string { return fmt.Sprintf("no dead letter topic after %d deliveries", len(s.bodies())) })
	equal(2, len(s.bodies()), "deliveries")
	p := k.puller(k.group("dlq"), dead, "*")
	r, err := p.PullFrom(background, queue(dead, 0), 0, 32)
	must(err)
	letters := r.GetMessageExts()
	equal(1, len(letters), "dead letters")
	equal("poison", string(letters[0].Body), "body")
	equal(topic, letters[0].GetProperty("RETRY_TOPIC"), "retry topic")
	equal(first.OffsetMsgID, letters[0].GetProperty("ORIGIN_MESSAGE_ID"), "origin")
	if isOurs {
		equal("max_retry", letters[0].GetProperty("DLQ_REASON"), "reason")
		equal(group, letters[0].GetProperty("DLQ_GROUP"), "group")
		equal("1", letters[0].GetProperty("DLQ_RETRY_COUNT"), "count")
	}
}

func tags(k *kit) {
	topic := k.topic("t", 4)
	one := k.sink(k.group("one"), topic, byTag("AaAa"), nil)
	some := k.sink(k.group("some"), topic, byTag("red || AaBB || blue"), nil)
	all := k.sink(k.group("all"), topic, byTag("*"), nil)
	p := k.producer()
	var wantedOne, wantedSome, wantedAll []string
	for _, tag := range []string{"AaAa", "AaBB", "BBAa", "BBBB", "red", "blue", "reddish", ""} {
		for i := 0; i < 4; i++ {
			body := fmt.Sprint(tag, "-", i)
			send(p, message(topic, tag, body))
			wantedAll = append(wantedAll, body)
			switch tag {
			case "AaAa":
				wantedOne = append(wantedOne, body)
			case "red", "AaBB", "blue":
				wantedSome = append(wantedSome, body)
			}
		}
	}
	one.expect(wantedOne)
	some.expect(wantedSome)
	all.expect(wantedAll)
}

func sql(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, bySQL("price BETWEEN 5 AND 12 AND (colour = 'red' OR TAGS = 'gold')"), nil)
	p := k.producer()
	var wanted []string
	for price := 0; price < 20; price++ {
		for i, colour := range []string{"red", "green"} {
			tag := []string{"iron", "gold"}[price%2]
			body := fmt.Sprint(price, colour, tag)
			m := message(topic, tag, body)
			m.WithProperty("price", fmt.Sprint(price))
			m.WithProperty("colour", colour)
			send(p, m)
			if price >= 5 && price <= 12 && (i == 0 || tag == "gold") {
				wanted = append(wanted, body)
			}
		}
	}
	s.expect(wanted)
}

// once returns bodies in order, each once: a queue that moves may be read again from its last commit.
func once(s *sink, prefix byte) (found []string) {
	seen := map[string]bool{}
	for _, body := range s.bodies() {
		if body[0] == prefix && !seen[body] {
			seen[body] = true
			found = append(found, body)
		}
	}
	return found
}

func orderByKey(k *kit) {
	topic := k.topic("t", 4)
	var suspended int32
	s := k.sink(k.group("g"), topic, byTag("*"), func(_ context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		if string(m.Body) == "b0007" && atomic.AddInt32(&suspended, 1) == 1 {
			return consumer.SuspendCurrentQueueAMoment
		}
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerOrder(true))
	p := k.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	keys := "abcde"
	for i := 0; i < 20; i++ {
		for _, key := range keys {
			send(p, message(topic, "", fmt.Sprintf("%c%04d", key, i)).WithShardingKey(string(key)))
		}
	}
	await(60, func() bool {
		for _, key := range keys {
			if len(once(s, byte(key))) < 20 {
				return false
			}
		}
		return atomic.LoadInt32(&suspended) > 1
	}, func() string { return fmt.Sprintf("got %d of 101", len(s.bodies())) })
	for _, key := range keys {
		equal(numbered(string(key), 20), once(s, byte(key)), "order")
	}
}

func globalOrder(k *kit) {
	topic := k.topic("t", 1)
	s := k.sink(k.group("g"), topic, byTag("*"), nil, consumer.WithConsumerOrder(true))
	bodies := numbered("g", 50)
	sendAll(k.producer(), topic, bodies)
	await(60, func() bool { return len(s.bodies()) >= 50 }, func() string { return fmt.Sprintf("got %d of 50", len(s.bodies())) })
	equal(bodies, s.bodies(), "order")
}

func broadcast(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	var all []*sink
	for i := 0; i < 2; i++ {
		all = append(all, k.sink(group, topic, byTag("*"), nil, consumer.WithConsumerModel(consumer.BroadCasting)))
	}
	time.Sleep(2 * time.Second)
	bodies := numbered("b", 20)
	sendAll(k.producer(), topic, bodies)
	for _, s := range all {
		s.expect(bodies)
	}
}

func firstStart(k *kit) {
	topic := k.topic("t", 4)
	p := k.producer()
	sendAll(p, topic, numbered("old", 8))
	first := k.sink(k.group("first"), topic, byTag("*"), nil)
	last := k.sink(k.group("last"), topic, byTag("*"), nil, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	first.expect(numbered("old", 8))
	last.expect(numbered("old", 8)) // as RocketMQ: a queue that still begins at 0 is read from there
}

func commitAndContinue(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	p := k.producer()
	sendAll(p, topic, numbered("one", 20))
	first := k.sink(group, topic, byTag("*"), nil)
	first.expect(numbered("one", 20))
	must(first.consumer.Shutdown())
	sendAll(p, topic, numbered("two", 20))
	k.sink(group, topic, byTag("*"), nil).expect(numbered("two", 20))
}

func poll(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	bodies := numbered("p", 30)
	sendAll(k.producer(), topic, bodies)
	c := k.puller(group, topic, "*")
	var got []string
	await(60, func() bool {
		request, err := c.Poll(background, time.Second)
		if err == nil {
			for _, m := range request.GetMsgList() {
				got = append(got, string(m.Body))
			}
			c.ACK(background, request, consumer.ConsumeSuccess)
		}
		return len(got) >= 30
	}, func() string { return fmt.Sprintf("polled %d of 30", len(got)) })
	same(bodies, got)
}

func pullFrom(k *kit) {
	topic := k.topic("t", 1)
	bodies := numbered("p", 40)
	sendAll(k.producer(), topic, bodies)
	c := k.puller(k.group("g"), topic, "*")
	place := queue(topic, 0)
	r, err := c.PullFrom(background, place, 0, 10)
	must(err)
	equal(primitive.PullFound, r.Status, "status")
	equal(10, len(r.GetMessageExts()), "the number of messages")
	equal(10, r.NextBeginOffset, "the next offset")
	equal(40, r.MaxOffset, "the end")
	r, err = c.PullFrom(background, place, 35, 32)
	must(err)
	equal("p0035", string(r.GetMessageExts()[0].Body), "the first message")
	equal(5, len(r.GetMessageExts()), "the number of messages near the end")
	r, err = c.PullFrom(background, place, 400, 32)
	must(err)
	equal(primitive.PullOffsetIllegal, r.Status, "status beyond the end")
	equal(40, r.NextBeginOffset, "the next offset beyond the end")
	must(c.UpdateOffset(place, 17))
	must(c.PersistOffset(background, topic))
	offset, err := c.CurrentOffset(place)
	must(err)
	equal(17, offset, "the current offset")
}

// Without notices clients balance each 20 s; with them it takes a moment.
func joinAndLeave(k *kit) {
	topic, group := k.topic("t", 4), k.group("g")
	p := k.producer()
	one := k.sink(group, topic, byTag("*"), nil)
	sendAll(p, topic, numbered("alone", 8))
	one.expect(numbered("alone", 8))
	two := k.sink(group, topic, byTag("*"), nil)
	sent := 0
	await(15, func() bool {
		sent++
		send(p, message(topic, "", fmt.Sprintf("both%04d", sent)))
		return len(two.bodies()) > 3
	}, func() string { return "the second member gets nothing" })
	must(two.consumer.Shutdown())
	sendAll(p, topic, numbered("again", 12))
	wanted := append(append(numbered("alone", 8), numbered("again", 12)...), numbered("both", sent+1)[1:]...)
	await(30, func() bool {
		seen := map[string]bool{}
		for _, body := range append(one.bodies(), two.bodies()...) {
			seen[body] = true
		}
		return len(seen) == len(wanted)
	}, func() string {
		return fmt.Sprintf("got %d and %d of %d", len(one.bodies()), len(two.bodies()), len(wanted))
	})
}

// What was acknowledged before, while and after is consumed.
func working(k *kit, what string) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	p := k.producer(producer.WithSendMsgTimeout(2 * time.Second))
	var lock sync.Mutex
	acknowledged := map[string]bool{}
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(acknowledged)
	}
	var isOver atomic.Bool
	done := make(chan bool)
	go func() {
		for i := 0; !isOver.Load(); i++ {
			body := fmt.Sprintf("r%06d", i)
			r, err := p.SendSync(background, message(topic, "", body))
			if err == nil && r.Status == primitive.SendOK {
				lock.Lock()
				acknowledged[body] = true
				lock.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
		}
		done <- true
	}()
	await(30, func() bool { return count() >= 200 && len(s.bodies()) > 0 }, func() string { return fmt.Sprint(count(), " sent") })
	ask(what)
	before := count()
	await(60, func() bool { return count() >= before+200 }, func() string { return "no sends after the restart" })
	isOver.Store(true)
	<-done
	missing := 0
	await(90, func() bool {
		seen := map[string]bool{}
		for _, body := range s.bodies() {
			seen[body] = true
		}
		missing = 0
		for body := range acknowledged {
			if !seen[body] {
				missing++
			}
		}
		return missing == 0
	}, func() string { return fmt.Sprintf("%d of %d acknowledged messages are missing", missing, count()) })
}
