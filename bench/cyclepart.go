package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// partCycles is the part of a process that takes and frees locks that no other wants.
const partCycles = "cycles"

// byHand is the floor of an uncontended lock: SET NX PX, and a script that compares and deletes,
// by a client with rueidis' own settings, by which a lone caller goes the synchronous path.
const byHand = "by hand"

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
	client, err := handClient(addr)
	if err != nil {
		return cycler{}, err
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
