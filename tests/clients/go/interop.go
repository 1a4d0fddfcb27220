package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// question is a line that the Python SDK's tests write; Interop.java answers to the same words.
type question struct {
	Op, Name, Topic, Group, Tags, Compression, Selector string
	Ordered, Replies, Rejects                           bool
	Failing                                             map[string]int
	After, Ms                                           int
	Message                                             plainMessage
	Messages                                            []plainMessage
}

type plainMessage struct {
	Body, Tags, Key string
	Keys            []string
	Properties      map[string]string
}

// shownMessage is a message as this client shows it.
type shownMessage struct {
	Topic      string            `json:"topic"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	Body       string            `json:"body"`
	Properties map[string]string `json:"properties"`
	Size       int32             `json:"size"`
	Attempt    int32             `json:"attempt"`
	ID         string            `json:"id"`
	OffsetID   string            `json:"offsetId"`
	Born       int64             `json:"born"`
	Good       bool              `json:"good"`
}

// listener is a push consumer that keeps what it gets, fails some of it for a while, and replies if it is told to.
type listener struct {
	sync.Mutex
	consumer rocketmq.PushConsumer
	shown    []shownMessage
}

type interop struct {
	kit       *kit
	listeners map[string]*listener
	producers map[string]rocketmq.Producer
	making    sync.Mutex
}

// runInterop answers {"op": …} with {"ok": …} or {"error": …}, line by line.
func runInterop() {
	i := &interop{kit: &kit{scenario: "interop"}, listeners: map[string]*listener{}, producers: map[string]rocketmq.Producer{}}
	i.producer("", "") // a reply finds a client only after its second heartbeat, 30 s from its start: so start early
	for {
		line, err := answers.ReadBytes('\n')
		if err != nil {
			return
		}
		answer := map[string]any{}
		func() {
			defer func() {
				if trouble := recover(); trouble != nil {
					answer["error"] = fmt.Sprint(trouble)
				}
			}()
			var ask question
			must(json.Unmarshal(line, &ask))
			answer["ok"] = i.run(&ask)
		}()
		text, err := json.Marshal(answer)
		must(err)
		say(string(text))
	}
}

func (i *interop) run(ask *question) any {
	switch ask.Op {
	case "listen":
		return i.listen(ask)
	case "got":
		l := i.listeners[ask.Name]
		l.Lock()
		defer l.Unlock()
		return append([]shownMessage{}, l.shown[min(ask.After, len(l.shown)):]...)
	case "stop":
		must(i.listeners[ask.Name].consumer.Shutdown())
		delete(i.listeners, ask.Name)
		return nil
	case "send":
		return i.send(ask)
	case "batch":
		return i.batch(ask)
	case "request":
		return i.request(ask)
	}
	panic("no such op: " + ask.Op)
}

func (i *interop) listen(ask *question) any {
	l := &listener{}
	failed := map[string]int{}
	decide := func(c context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		body := string(m.Body)
		l.Lock()
		failed[body]++
		isGood := failed[body] > ask.Failing[body]
		l.shown = append(l.shown, show(m, isGood))
		l.Unlock()
		if ask.Replies {
			i.reply(m)
		}
		switch {
		case isGood:
			return consumer.ConsumeSuccess
		case ask.Ordered:
			return consumer.SuspendCurrentQueueAMoment
		case ask.Rejects:
			return later(-1)(c, m)
		}
		return later(1)(c, m)
	}
	tags := ask.Tags
	if tags == "" {
		tags = "*"
	}
	i.listeners[ask.Name] = l
	l.consumer = i.kit.sink(ask.Group, ask.Topic, byTag(tags), decide, consumer.WithConsumerOrder(ask.Ordered)).consumer
	return nil // it does not tell its client id
}

func show(m *primitive.MessageExt, isGood bool) shownMessage {
	return shownMessage{m.Topic, m.Queue.QueueId, m.QueueOffset, base64.StdEncoding.EncodeToString(m.Body), m.GetProperties(),
		m.StoreSize, m.ReconsumeTimes + 1, m.MsgId, m.OffsetMsgId, m.BornTimestamp, isGood}
}

func (i *interop) reply(m *primitive.MessageExt) {
	answer, err := consumer.CreateReplyMessage(m, nil)
	if err == nil {
		answer.Body = append([]byte("answer to "), m.Body...) // this client forgets the body it is given
		answer.WithTag("answered")
		answer.WithProperty("by", "go")
		_, err = i.producer("", "").SendSync(background, answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reply:", err)
	}
}

// byJavaHash chooses the queue that Java's SelectMessageQueueByHash and the Python SDK choose for a sharding key.
type byJavaHash struct{}

func (byJavaHash) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	var hash int32
	for _, unit := range utf16.Encode([]rune(m.GetShardingKey())) {
		hash = 31*hash + int32(unit)
	}
	place := hash % int32(len(queues))
	if place < 0 {
		place = -place
	}
	return queues[place]
}

// producer returns one for each compression and way to choose queues.
func (i *interop) producer(compression, selector string) rocketmq.Producer {
	i.making.Lock()
	defer i.making.Unlock()
	name := compression + "/" + selector
	if i.producers[name] == nil {
		over := 1 << 30
		if compression != "" {
			check(compression == "zlib", "this client compresses by zlib only, not by %s", compression)
			over = 1000
		}
		options := []producer.Option{producer.WithCompressMsgBodyOverHowmuch(over)}
		switch selector {
		case "java":
			options = append(options, producer.WithQueueSelector(byJavaHash{}))
		case "own":
			options = append(options, producer.WithQueueSelector(producer.NewHashQueueSelector()))
		}
		i.producers[name] = i.kit.producer(options...)
	}
	return i.producers[name]
}

func made(topic string, from plainMessage) *primitive.Message {
	body, err := base64.StdEncoding.DecodeString(from.Body)
	must(err)
	m := primitive.NewMessage(topic, body)
	if from.Tags != "" {
		m.WithTag(from.Tags)
	}
	if len(from.Keys) > 0 {
		m.WithKeys(from.Keys)
	}
	if from.Key != "" {
		m.WithShardingKey(from.Key)
	}
	for name, value := range from.Properties {
		m.WithProperty(name, value)
	}
	return m
}

func placed(r *primitive.SendResult) map[string]any {
	return map[string]any{"id": r.MsgID, "broker": r.MessageQueue.BrokerName, "queue": r.MessageQueue.QueueId, "offset": r.QueueOffset}
}

func (i *interop) send(ask *question) any {
	var found []any
	for _, each := range ask.Messages {
		found = append(found, placed(send(i.producer(ask.Compression, ask.Selector), made(ask.Topic, each))))
	}
	return found
}

func (i *interop) batch(ask *question) any {
	var all []*primitive.Message
	for _, each := range ask.Messages {
		all = append(all, made(ask.Topic, each))
	}
	return placed(send(i.producer("", ""), all...))
}

func (i *interop) request(ask *question) any {
	wait := time.Duration(ask.Ms) * time.Millisecond
	answer, err := i.producer("", "").Request(background, wait, made(ask.Topic, ask.Message))
	if err != nil && strings.Contains(err.Error(), "timeout") {
		return nil
	}
	must(err)
	return map[string]any{"body": base64.StdEncoding.EncodeToString(answer.Body), "properties": answer.GetProperties()}
}
