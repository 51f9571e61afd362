package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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
					What:   fmt.Sprintf("CLIENT PAUSE of %v on %s", d, which),
					Inject: func() error { return s.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL").Error() },
					Heal:   func() error { return s.Do("PING").Error() }, // it is paused as well
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
				// So slowly that it lasts until it is healed.
				return aside(s, "loading on "+which, []string{"CONFIG", "SET", "key-load-delay", "1000"},
					[]string{"DEBUG", "LOADAOF"}, []string{"CONFIG", "SET", "key-load-delay", "0"})
			},
		},
	}
}

// below is a random time of at least a fifth of most.
func (f *Field) below(dice *rand.Rand, most time.Duration) time.Duration {
	return (most/5 + time.Duration(dice.Int64N(int64(most*4/5)))).Truncate(time.Millisecond)
}

// aside is a fault that lasts as long as the answer to a command, which is given on a connection of its own. Heal waits for it.
func aside(s *redistest.Server, what string, before, command, after []string) Fault {
	done := make(chan error, 1)
	return Fault{
		What: what,
		Inject: func() error {
			if before != nil {
				if err := s.Do(before...).Error(); err != nil {
					return err
				}
			}
			go func() { done <- alone(s, command) }()
			return nil
		},
		Heal: func() error {
			var err error
			if after != nil {
				err = s.Do(after...).Error()
			}
			if failed := <-done; failed != nil {
				return failed
			}
			return err
		},
	}
}

// alone gives a command on a connection of its own.
func alone(s *redistest.Server, command []string) error {
	client, err := s.NewClient(func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(command...).Build()).Error()
}
