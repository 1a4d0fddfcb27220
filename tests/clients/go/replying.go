package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What the broker carries from one client to another.
func registerReplying() {
	scenario("request-reply", requestReply)
}

func requestReply(k *kit) {
	topic := k.topic("t", 4)
	answers := k.producer()
	k.sink(k.group("answerer"), topic, byTag("*"), func(_ context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		reply, err := consumer.CreateReplyMessage(m, nil)
		if err == nil {
			reply.Body = []byte("answer to " + string(m.Body)) // this client forgets the body it is given
			_, err = answers.SendSync(background, reply)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "reply:", err)
		}
		return consumer.ConsumeSuccess
	})
	p := k.producer()
	await(75, func() bool { // a reply finds this client only after its second heartbeat, 30 s from its start
		_, err := p.Request(background, 3*time.Second, message(topic, "", "warm-up"))
		return err == nil
	}, func() string { return "no reply" })
	for i := 0; i < 3; i++ {
		reply, err := p.Request(background, 20*time.Second, message(topic, "", fmt.Sprint("question ", i)))
		must(err)
		equal(fmt.Sprint("answer to question ", i), string(reply.Body), "answer")
	}
	var answered sync.Map
	for i := 0; i < 5; i++ {
		question := fmt.Sprint("async ", i)
		must(p.RequestAsync(background, 20*time.Second, func(_ context.Context, reply *primitive.Message, err error) {
			if err == nil && reply != nil && string(reply.Body) == "answer to "+question {
				answered.Store(question, true) // this client calls back twice
			}
		}, message(topic, "", question)))
	}
	await(30, func() bool {
		count := 0
		answered.Range(func(any, any) bool { count++; return true })
		return count == 5
	}, func() string { return "not all async requests are answered" })
}
