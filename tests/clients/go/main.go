// Scenarios with the official Go client, many at a time: clients NAME_SERVER SERVER RUN [SCENARIO …].
//
// A line for each: PASS, FAIL or SKIP, its name, seconds, what was wrong; END when all are through.
// A scenario asks whoever started this to restart a server by a line ASK …, and goes on at a line on standard input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type play func(*kit)

type entry struct {
	name string
	run  play
}

// Scenarios wait much and compute little.
const atOnce = 10

var (
	plain      []entry
	alone      []entry
	litemqOnly = map[string]bool{}

	nameServer, runName string
	isOurs              bool

	printing sync.Mutex
	answers  = bufio.NewReader(os.Stdin)
)

// scenario registers what any RocketMQ must do.
func scenario(name string, run play) { plain = append(plain, entry{name, run}) }

// ours registers what LiteMQ must do, and RocketMQ does otherwise.
func ours(name string, run play) {
	litemqOnly[name] = true
	scenario(name, run)
}

// restarting registers what restarts a server, and so runs alone at the end.
func restarting(name string, run play) { alone = append(alone, entry{name, run}) }

func say(line string) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(strings.ReplaceAll(line, "\n", " "))
}

type skipped string

// ask has whoever started this do something, and waits until it is done.
func ask(what string) {
	say("ASK " + what)
	answer, err := answers.ReadString('\n')
	must(err)
	answer = strings.TrimSpace(answer)
	if why, is := strings.CutPrefix(answer, "SKIP "); is {
		panic(skipped(why))
	}
	check(answer == "DONE", "%s: %s", what, answer)
}

func runOne(one entry) {
	start := time.Now()
	verdict, text := "PASS", ""
	func() {
		k := &kit{scenario: one.name}
		defer k.close()
		defer func() {
			switch trouble := recover().(type) {
			case nil:
			case skipped:
				verdict, text = "SKIP", string(trouble)
			default:
				verdict, text = "FAIL", fmt.Sprint(trouble)
			}
		}()
		one.run(k)
	}()
	say(fmt.Sprintf("%s %s %.1f %s", verdict, one.name, time.Since(start).Seconds(), text))
}

func runAll(some []entry, many int) {
	var waiting sync.WaitGroup
	slots := make(chan bool, many)
	for _, one := range some {
		waiting.Add(1)
		slots <- true
		go func(one entry) {
			defer waiting.Done()
			runOne(one)
			<-slots
		}(one)
	}
	waiting.Wait()
}

func chosen(some []entry, names []string) (kept []entry) {
	for _, one := range some {
		for _, name := range names {
			if name != one.name {
				continue
			}
			if litemqOnly[name] && !isOurs {
				say("SKIP " + name + " 0.0 holds for LiteMQ only")
			} else {
				kept = append(kept, one)
			}
		}
	}
	return kept
}

func main() {
	rlog.SetLogLevel("fatal")
	nameServer, isOurs, runName = os.Args[1], os.Args[2] == "litemq", os.Args[3]
	registerTransacting() // the slow ones first
	registerReplying()
	registerReceiving()
	registerSending()
	connect()
	if len(os.Args) == 5 && os.Args[4] == "interop" {
		runInterop() // the other side of the Python SDK's tests
		return
	}
	runAll(chosen(plain, os.Args[4:]), atOnce)
	runAll(chosen(alone, os.Args[4:]), 1)
	say("END")
}
