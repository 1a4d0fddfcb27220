// Sends nine orders and consumes those that were paid or shipped, each customer's in order.
//
//	go run . 127.0.0.1:9876
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var states = []string{"created", "paid", "shipped"}

func main() {
	nameServer, topic := argument(1, "127.0.0.1:9876"), argument(2, "orders")
	rlog.SetLogLevel("error")
	if err := run(primitive.NamesrvAddr{nameServer}, topic); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("done")
}

func run(nameServers primitive.NamesrvAddr, topic string) error {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer(nameServers),
		producer.WithGroupName("order-desk"),
		// A customer's orders go into one queue: they are consumed in the order in which they were sent.
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer sender.Shutdown()
	for number := 0; number < 9; number++ {
		customer := fmt.Sprintf("c-%d", number%3)
		order := primitive.NewMessage(topic, []byte(fmt.Sprintf("order %d", number)))
		order.WithTag(states[number/3]).WithKeys([]string{fmt.Sprintf("order-%d", number)}).WithShardingKey(customer)
		sent, err := sender.SendSync(context.Background(), order)
		if err != nil {
			return err
		}
		queue := sent.MessageQueue.QueueId
		fmt.Printf("sent     order %d of %s: queue %d, offset %d\n", number, customer, queue, sent.QueueOffset)
	}

	consumed := make(chan struct{}, 9)
	receiver, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(nameServers),
		consumer.WithGroupName("billing"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(true),
	)
	if err != nil {
		return err
	}
	wanted := consumer.MessageSelector{Type: consumer.TAG, Expression: "paid || shipped"}
	err = receiver.Subscribe(topic, wanted,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				fmt.Printf("consumed %s, %s\n", message.Body, message.GetTags())
				consumed <- struct{}{}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	defer receiver.Shutdown()
	for left := 6; left > 0; left-- {
		select {
		case <-consumed:
		case <-time.After(60 * time.Second):
			return fmt.Errorf("%d orders did not arrive", left)
		}
	}
	return nil
}

func argument(at int, otherwise string) string {
	if len(os.Args) > at {
		return os.Args[at]
	}
	return otherwise
}
