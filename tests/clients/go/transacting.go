package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Transactions: committed, rolled back, asked about.
func registerTransacting() {
	scenario("transaction-unknown-then-commit", func(k *kit) { askedAbout(k, primitive.CommitMessageState) })
	scenario("transaction-unknown-then-rollback", func(k *kit) { askedAbout(k, primitive.RollbackMessageState) })
	scenario("transaction-other-member-is-asked", otherMember)
	ours("transaction-repeated-end", repeatedEnd)
	scenario("transaction-commit-and-rollback", commitAndRollback)
}

// decider decides by the beginning of the body, and notes what it was asked.
type decider struct {
	sync.Mutex
	whenAsked primitive.LocalTransactionState
	thinks    time.Duration // before it answers
	asked     []string
}

func (d *decider) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch m.Body[0] {
	case 'c':
		return primitive.CommitMessageState
	case 'r':
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decider) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	d.Lock()
	d.asked = append(d.asked, string(m.Body))
	d.Unlock()
	time.Sleep(d.thinks)
	return d.whenAsked
}

func (d *decider) questions() []string {
	d.Lock()
	defer d.Unlock()
	return append([]string{}, d.asked...)
}

func (k *kit) transactions(group string, d *decider) rocketmq.TransactionProducer {
	made, err := rocketmq.NewTransactionProducer(d, producer.WithNameServer([]string{nameServer}),
		producer.WithGroupName(group), producer.WithInstanceName(unique()), producer.WithSendMsgTimeout(10*time.Second))
	must(err)
	must(made.Start())
	k.atEnd(made.Shutdown)
	return made
}

func begin(p rocketmq.TransactionProducer, topic, body string) *primitive.TransactionSendResult {
	m := message(topic, "", body)
	if body[0] != 'c' && body[0] != 'r' {
		m.WithProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1")
	}
	result, err := p.SendMessageInTransaction(context.Background(), m)
	must(err)
	check(result.Status == primitive.SendOK, "a half message ended with %v", result.Status)
	return result
}

func commitAndRollback(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	d := &decider{}
	p := k.transactions(k.group("p"), d)
	var wanted []string
	for i := 0; i < 10; i++ {
		begin(p, topic, fmt.Sprint("rollback ", i))
		begin(p, topic, fmt.Sprint("commit ", i))
		wanted = append(wanted, fmt.Sprint("commit ", i))
	}
	s.expect(wanted)
	same(nil, d.questions())
}

func askedAbout(k *kit, answer primitive.LocalTransactionState) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	d := &decider{whenAsked: answer}
	begin(k.transactions(k.group("p"), d), topic, "unknown")
	await(60, func() bool { return len(d.questions()) > 0 }, func() string { return "nobody asks" })
	if answer == primitive.CommitMessageState {
		s.expect([]string{"unknown"})
	}
	time.Sleep(4 * time.Second) // longer than servers.py lets pass between two questions
	same([]string{"unknown"}, d.questions())
	check(answer == primitive.CommitMessageState || len(s.bodies()) == 0, "rolled back, and there")
}

// otherMember: whoever began a transaction is gone, and another member of its group is asked.
func otherMember(k *kit) {
	topic, group := k.topic("t", 4), k.group("p")
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	dead := k.transactions(group, &decider{})
	begin(dead, topic, "orphan")
	must(dead.Shutdown())
	other := &decider{whenAsked: primitive.CommitMessageState}
	begin(k.transactions(group, other), topic, "commit") // this client is no member before it has sent
	s.expect([]string{"commit", "orphan"})
	same([]string{"orphan"}, other.questions())
}

// repeatedEnd: whoever takes long to answer is asked again, and says the same end more than once.
func repeatedEnd(k *kit) {
	topic := k.topic("t", 4)
	s := k.sink(k.group("g"), topic, byTag("*"), nil)
	d := &decider{whenAsked: primitive.CommitMessageState, thinks: 5 * time.Second}
	begin(k.transactions(k.group("p"), d), topic, "unknown")
	await(60, func() bool { return len(d.questions()) > 1 }, func() string { return "nobody asks again" })
	s.expect([]string{"unknown"})
	time.Sleep(d.thinks + time.Second)
	same([]string{"unknown"}, s.bodies())
}
