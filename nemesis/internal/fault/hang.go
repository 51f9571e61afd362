package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const missed = "exclusion with Sentinel, which fails over: the replica may have missed grants"

// hanging are faults in which a server is busy with something else.
func hanging() []Kind {
	return []Kind{
		{
			Name: "all-paused", Hangs: true, Voids: missed,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				d := f.below(dice, f.TTL)
				return Fault{
					What: fmt.Sprintf("CLIENT PAUSE of %v on %s", d, which),
					Inject: func() error {
						return do(s, "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10),
							"ALL")
					},
					Heal: func() error { return do(s, "PING") }, // it is paused as well
				}
			},
		},
		{
			Name: "debug-sleep", Hangs: true, Voids: missed,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				d := f.below(dice, f.TTL)
				return aside(s, fmt.Sprintf("DEBUG SLEEP of %v on %s", d, which), nil,
					[]string{"DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64)}, nil)
			},
		},
		{
			Name: "loading", Hangs: true, Voids: missed,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				return f.load(s, which)
			},
		},
	}
}

// load makes a server read its data again, so slowly that it takes
// some TTLs unless it is healed before.
func (f *Field) load(s *redistest.Server, which string) Fault {
	const command = 100 // bytes of a usual one
	slowly := Fault{Heal: func() error { return nil }}
	return Fault{
		What: "loading on " + which,
		Inject: func() error {
			info, err := s.Do("INFO", "persistence").ToString()
			if err != nil {
				return err
			}
			_, size, _ := strings.Cut(info, "aof_current_size:")
			bytes, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(size, "\n", 2)[0]), 10,
				64)
			if err != nil {
				return fmt.Errorf("fault: aof_current_size: %w", err)
			}
			delay := max(1, min(1000, 2*f.TTL.Microseconds()/max(1, bytes/command)))
			slowly = aside(s, "",
				[]string{"CONFIG", "SET", "key-load-delay", strconv.FormatInt(delay, 10)},
				[]string{"DEBUG", "LOADAOF"}, []string{"CONFIG", "SET", "key-load-delay", "0"})
			return slowly.Inject()
		},
		Heal: func() error { return slowly.Heal() },
	}
}

// below is a random time of at least a fifth of most.
func (f *Field) below(dice *rand.Rand, most time.Duration) time.Duration {
	return (most/5 + time.Duration(dice.Int64N(int64(most*4/5)))).Truncate(time.Millisecond)
}

// aside is a fault that lasts as long as the answer to a command,
// which is given on a connection of its own. Heal waits for it.
func aside(s *redistest.Server, what string, before, command, after []string) Fault {
	var done chan error // nil until the command is given
	return Fault{
		What: what,
		Inject: func() error {
			if before != nil {
				if err := do(s, before...); err != nil {
					return err
				}
			}
			done = make(chan error, 1)
			go func() { done <- alone(s, command) }()
			return nil
		},
		Heal: func() error {
			var err error
			if after != nil {
				err = do(s, after...)
			}
			if done != nil {
				err = errors.Join(err, <-done)
			}
			return err
		},
	}
}

// alone gives a command on a connection of its own.
func alone(s *redistest.Server, command []string) error {
	client, err := s.NewClient(func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
	if err != nil {
		return fmt.Errorf("fault: %v: %w", command, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = client.Do(ctx, client.B().Arbitrary(command...).Build()).Error()
	if isReply(err) {
		return fmt.Errorf("fault: %v: %w", command, err)
	}
	return nil // done, or cut off in between by a Sentinel
}
