package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var (
	background    = context.Background()
	tools         admin.Admin
	brokerAddress string
	serial        int64
)

// kit is what one scenario works with: fresh names, clients that end with it.
type kit struct {
	scenario string
	ends     []func() error
	lock     sync.Mutex
}

func (k *kit) atEnd(end func() error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.ends = append(k.ends, end)
}

func (k *kit) close() {
	go func() {
		for _, end := range k.ends {
			_ = end()
		}
	}()
}

// connect finds the broker's address, which this client's admin part wants: it is in the id of any message.
func connect() {
	made, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{nameServer})))
	must(err)
	tools = made
	k := &kit{scenario: "connect"}
	defer k.close()
	p := k.producer()
	await(60, func() bool {
		result, err := p.SendSync(background, message(k.name("t"), "", "where are you?"))
		if err != nil {
			return false
		}
		id, err := primitive.UnmarshalMsgID([]byte(result.OffsetMsgID))
		must(err)
		brokerAddress = fmt.Sprintf("%s:%d", id.Addr, id.Port)
		return true
	}, func() string { return "no broker takes a message" })
}

// -- names --------------------------------------------------------------------------------------

func unique() string { return fmt.Sprintf("i%d_%d", os.Getpid(), atomic.AddInt64(&serial, 1)) }

func (k *kit) name(part string) string {
	return "go_" + k.scenario + "_" + part + "_" + runName
}

func (k *kit) group(part string) string { return "GID_" + k.name(part) }

// topic creates a topic with so many queues.
func (k *kit) topic(part string, queues int) string {
	name := k.name(part)
	must(tools.CreateTopic(background, admin.WithTopicCreate(name), admin.WithBrokerAddrCreate(brokerAddress),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)))
	await(20, func() bool {
		found, err := tools.FetchPublishMessageQueues(background, name)
		return err == nil && len(found) == queues
	}, func() string { return "no route of " + name })
	return name
}

// -- clients ------------------------------------------------------------------------------------

func (k *kit) producer(more ...producer.Option) rocketmq.Producer {
	options := append([]producer.Option{
		producer.WithNameServer([]string{nameServer}), producer.WithGroupName("PID_" + unique()),
		producer.WithInstanceName(unique()), producer.WithRetry(2), producer.WithSendMsgTimeout(10 * time.Second),
	}, more...)
	made, err := rocketmq.NewProducer(options...)
	must(err)
	must(made.Start())
	k.atEnd(made.Shutdown)
	return made
}

type verdict func(context.Context, *primitive.MessageExt) consumer.ConsumeResult

// sink is a push consumer that keeps what it gets.
type sink struct {
	sync.Mutex
	got      []*primitive.MessageExt
	consumer rocketmq.PushConsumer
}

func (s *sink) messages() []*primitive.MessageExt {
	s.Lock()
	defer s.Unlock()
	return append([]*primitive.MessageExt{}, s.got...)
}

func (s *sink) bodies() (found []string) {
	for _, m := range s.messages() {
		found = append(found, string(m.Body))
	}
	return found
}

// expect waits for exactly these, in any order; one too many would come in the following moments.
func (s *sink) expect(wanted []string) {
	await(60, func() bool { return len(s.bodies()) >= len(wanted) },
		func() string { return fmt.Sprintf("got %d of %d messages", len(s.bodies()), len(wanted)) })
	time.Sleep(700 * time.Millisecond)
	same(wanted, s.bodies())
}

func byTag(expression string) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
}

func bySQL(expression string) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}
}

func (k *kit) sink(group, topic string, selector consumer.MessageSelector, decide verdict, more ...consumer.Option) *sink {
	s := &sink{}
	options := append([]consumer.Option{
		consumer.WithNameServer([]string{nameServer}), consumer.WithGroupName(group), consumer.WithInstance(unique()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	made, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(made.Subscribe(topic, selector, func(c context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, m := range messages {
			if decide != nil {
				result = decide(c, m)
			}
			s.Lock()
			s.got = append(s.got, m)
			s.Unlock()
		}
		return result, nil
	}))
	must(made.Start())
	k.atEnd(made.Shutdown)
	s.consumer = made
	return s
}

func (k *kit) puller(group, topic, tags string) rocketmq.PullConsumer {
	made, err := rocketmq.NewPullConsumer(consumer.WithNameServer([]string{nameServer}), consumer.WithGroupName(group),
		consumer.WithInstance(unique()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(made.Subscribe(topic, byTag(tags)))
	must(made.Start())
	k.atEnd(made.Shutdown)
	return made
}

func queue(topic string, id int) *primitive.MessageQueue {
	found, err := tools.FetchPublishMessageQueues(background, topic)
	must(err)
	for _, q := range found {
		if q.QueueId == id {
			return q
		}
	}
	panic(fmt.Sprintf("no queue %d of %s", id, topic))
}

// -- messages -----------------------------------------------------------------------------------

func message(topic, tags, body string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(body))
	if tags != "" {
		m.WithTag(tags)
	}
	return m
}

func send(p rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	result, err := p.SendSync(background, messages...)
	must(err)
	check(result.Status == primitive.SendOK, "a send ended with %v", result.Status)
	return result
}

func sendAll(p rocketmq.Producer, topic string, bodies []string) {
	for _, body := range bodies {
		send(p, message(topic, "", body))
	}
}

func numbered(prefix string, count int) (found []string) {
	for i := 0; i < count; i++ {
		found = append(found, fmt.Sprintf("%s%04d", prefix, i))
	}
	return found
}

// -- checks -------------------------------------------------------------------------------------

func check(isSo bool, format string, values ...any) {
	if !isSo {
		panic(fmt.Sprintf(format, values...))
	}
}

func must(err error) { check(err == nil, "%v", err) }

func equal(wanted, got any, what string) {
	check(fmt.Sprint(wanted) == fmt.Sprint(got), "%s is %v, not %v", what, got, wanted)
}

func same(wanted, got []string) {
	a, b := append([]string{}, wanted...), append([]string{}, got...)
	sort.Strings(a)
	sort.Strings(b)
	if !reflect.DeepEqual(a, b) {
		text := strings.Join(b, " ")
		check(false, "got %d messages, not %d: %.200s", len(b), len(a), text)
	}
}

func await(seconds int, isSo func() bool, what func() string) {
	for end := time.Now().Add(time.Duration(seconds) * time.Second); !isSo(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "not within %d s: %s", seconds, what())
	}
}
