package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// partCycles is the part of a process that takes and frees locks that no other wants.
const partCycles = "cycles"

// byHand is the floor of an uncontended lock: SET NX PX, and a script that compares and deletes,
// by a client with rueidis' own settings, by which a lone caller goes the synchronous path.
const byHand = "by hand"

// before is Lockbeat of another checkout.
const before = "Lockbeat, before"

// cyclesWanted and cyclesDone are what such a process reads and answers.
type cyclesWanted struct {
	Goroutines int
	Span       time.Duration
}

type cyclesDone struct {
	Cycles int
	Took   time.Duration
	CPU    time.Duration
	Err    string
}

// uncontended lets processes of the floor, of Lockbeat, and, by -before, of Lockbeat as it was,
// take and free locks in turn.
func uncontended(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	slice, turns := 100*time.Millisecond, 20*o.rounds
	if o.short {
		slice, turns = 50*time.Millisecond, 2
	}
	who := []string{byHand, lockbeat}
	if o.before != "" {
		who = append(who, before)
	}
	children := make([]*childProcess, len(who))
	defer func() {
		for _, c := range children {
			if c != nil {
				_ = c.end(nil) // what it measured is here already
			}
		}
	}()
	for i := range who {
		spec := childSpec{Part: partCycles, Who: who[i], Addr: server.Addr(), TTL: cycleTTL}
		program := ""
		if spec.Who == before {
			spec.Who, program = lockbeat, o.before
		}
		if children[i], err = startProgram(ctx, program, spec); err != nil {
			return nil, err
		}
		if err := children[i].said.Decode(new(ready)); err != nil {
			return nil, fmt.Errorf("%s did not begin: %w", who[i], err)
		}
	}
	out := &printer{w: w}
	var targets []target
	for _, goroutines := range []int{1, 64, 1024} {
		rates, cpu := make([]sample, len(who)), make([]sample, len(who))
		for turn := range turns + 1 {
			for _, i := range rand.Perm(len(who)) { // no one always follows the same one
				done, err := askCycles(children[i], cyclesWanted{goroutines, slice})
				if err != nil {
					return nil, fmt.Errorf("%s: %w", who[i], err)
				}
				if turn == 0 { // to warm up
					continue
				}
				rates[i].add(float64(done.Cycles) / done.Took.Seconds())
				cpu[i].add(done.CPU.Seconds() * 1e6 / float64(max(done.Cycles, 1)))
			}
		}
		t := table{{"", "cycles/s", "÷ by hand", "client CPU µs a cycle"}}
		for i := range who {
			t.add(who[i], fmt.Sprintf("%.0f", rates[i].median()),
				fmt.Sprintf("%.3f", ratioOf(&rates[i], &rates[0])),
				fmt.Sprintf("%.1f", cpu[i].median()))
		}
		out.printf("\n## Acquire + release, goroutines: %d, a key each (medians of %d slices of "+
			"%v)\n\n%s", goroutines, turns, slice, t)
		if o.before != "" {
			targets = append(targets, noSlower(goroutines, ratios(&rates[1], &rates[2])))
		}
	}
	return targets, out.err
}

// noSlower judges Lockbeat's cycles beside those of before. It is slower if the median is below 1
// with 95 % confidence: the same program beside itself is, half of the time, by a per cent.
func noSlower(goroutines int, ratios []float64) target {
	low, high := confidence(ratios)
	return target{
		fmt.Sprintf("acquire + release, goroutines: %d, after ÷ before", goroutines),
		fmt.Sprintf("%.3f (95 %%: %.3f to %.3f)", median(ratios), low, high), "≥ 1.00", high >= 1,
	}
}

// confidence is the interval that has the median of what values are drawn from, with 95 %: between
// the order statistics that are 1.96 standard deviations of the binomial distribution apart.
func confidence(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	reach := 1.96 * math.Sqrt(n) / 2
	last := len(sorted) - 1
	return sorted[max(int(n/2-reach), 0)], sorted[min(int(math.Ceil(n/2+reach)), last)]
}

func askCycles(child *childProcess, wanted cyclesWanted) (done cyclesDone, err error) {
	err = within(wanted.Span+2*endWithin, func() error {
		if err := json.NewEncoder(child.stdin).Encode(wanted); err != nil {
			return err
		}
		return child.said.Decode(&done)
	})
	if err == nil && done.Err != "" {
		err = errors.New(done.Err)
	}
	return done, err
}

// playCycles runs cycles for each line that it reads.
func playCycles(ctx context.Context, s childSpec, in *bufio.Reader, out *json.Encoder) error {
	newOne := keeperCycler
	if s.Who == byHand {
		newOne = handCycler
	}
	c, err := newOne(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer c.close()
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	for decoder := json.NewDecoder(in); ; {
		var wanted cyclesWanted
		if err := decoder.Decode(&wanted); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var times histogram
		cpuBefore, err := cpuTime()
		if err != nil {
			return err
		}
		begun := time.Now()
		err = runCycles(ctx, c, wanted.Goroutines, wanted.Span, &times)
		done := cyclesDone{Cycles: times.total, Took: time.Since(begun)}
		if err != nil {
			done.Err = err.Error()
		}
		cpuAfter, err := cpuTime()
		if err != nil {
			return err
		}
		done.CPU = cpuAfter - cpuBefore
		if err := out.Encode(done); err != nil {
			return err
		}
	}
}

// handFree deletes KEYS[1] if it has the token ARGV[1].
var handFree = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

func handCycler(_ context.Context, addr string) (cycler, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return cycler{}, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return cycler{byHand, func(number int) func(context.Context) error {
		key, token := "hand:"+leaseName(number), strings.Repeat("-", 22)
		return func(ctx context.Context) error {
			err := client.Do(ctx, client.B().Set().Key(key).Value(token).Nx().
				Px(cycleTTL).Build()).Error()
			if err != nil {
				return fmt.Errorf("SET: %w", err)
			}
			freed, err := handFree.Exec(ctx, client, []string{key}, []string{token}).AsBool()
			if err == nil && !freed {
				err = errors.New("the key was another's")
			}
			return err
		}
	}, client.Close}, nil
}
