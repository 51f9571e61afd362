package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// The former primary counts the replicas whose last word is at most maxLag old. It reckons in whole
// seconds and counts once a second, so that it refuses to write at most lagSlack later.
const (
	maxLag   = time.Second
	lagSlack = 2 * time.Second
)

// formers are fail-overs in which the former primary stays up, and in reach of the workers: no
// Sentinel can demote it for a while.
func formers() []Kind {
	return []Kind{
		formerKind("fail-over-old-up",
			"exclusion, until a TTL after the clients were told of the new primary",
			func(*Field, *rand.Rand) *former { return new(former) }),
		formerKind("fail-over-unheard",
			"exclusion, until the former primary is demoted: a client that no Sentinel reaches "+
				"is never told",
			func(f *Field, dice *rand.Rand) *former { return &former{deaf: f.someWorkers(dice)} }),
		formerKind("fail-over-min-replicas",
			"exclusion, until a TTL after the former primary has refused to write",
			func(f *Field, dice *rand.Rand) *former {
				return &former{deaf: f.someWorkers(dice), guarded: true}
			}),
	}
}

func formerKind(name, voids string, choose func(*Field, *rand.Rand) *former) Kind {
	return Kind{
		Name: name, Forgets: true, FailsOver: true, TTLs: 2, Voids: voids,
		Fits: func(f *Field) bool { return f.Deployment.Sentinel != nil },
		New: func(f *Field, dice *rand.Rand) Fault {
			one := choose(f, dice)
			one.field = f
			return Fault{
				What: one.what(), Inject: one.inject, Heal: one.heal,
				FailOver: func() history.FailOver {
					return one.told
				},
			}
		},
	}
}

// former is one such fail-over.
type former struct {
	field   *Field
	deaf    []int // workers that no Sentinel reaches
	guarded bool  // the former primary wants a replica in order to write

	server *redistest.Server // nil until it is known
	told   history.FailOver
	sights *sights // nil until there is something to see
}

func (o *former) what() string {
	text := "a fail-over that leaves the former primary up"
	if o.deaf != nil {
		text += fmt.Sprintf(" and of which %d workers hear nothing", len(o.deaf))
	}
	if o.guarded {
		text += ", with min-replicas-to-write"
	}
	return text
}

func (o *former) inject() error {
	sentinel := o.field.Deployment.Sentinel
	server, err := sentinel.Primary()
	if err != nil {
		return err
	}
	o.server, o.told.Former = server, server.Addr()
	// To Sentinels a former primary that is up is a replica like others: they would fail back to it
	// when the new one is slow to answer.
	if err := sentinel.Patience(true); err != nil {
		return err
	}
	if o.guarded {
		lag := strconv.Itoa(int(maxLag.Seconds()))
		if err := do(server, "CONFIG", "SET", "min-replicas-max-lag", lag, "min-replicas-to-write",
			"1"); err != nil {
			return err
		}
	}
	if err := server.RefuseDemotion(true); err != nil {
		return err
	}
	o.cut(true)
	if err := o.failOver(sentinel); err != nil {
		return err
	}
	o.sights = watch(server)
	return nil
}

func (o *former) failOver(sentinel *redistest.Sentinel) error {
	if !o.guarded {
		return sentinel.Failover()
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	var missing error // to be read after watching
	watching.Go(func() { missing = o.awaitRefusal(over) })
	err := sentinel.Failover()
	close(over)
	watching.Wait()
	return errors.Join(err, missing)
}

// awaitRefusal notes from when the former primary knows of no replica,
// and so refuses to write: for good, once the fail-over is over.
func (o *former) awaitRefusal(over <-chan struct{}) error {
	var begun time.Time // that it was over
	for ; ; <-time.After(5 * time.Millisecond) {
		info, err := o.server.Do("INFO", "replication").ToString()
		switch {
		case err != nil:
			return err
		case !strings.Contains(info, "min_slaves_good_slaves:0"):
			o.told.Refused = 0
		case o.told.Refused == 0:
			o.told.Refused = history.Now()
		}
		select {
		case <-over:
		default:
			continue
		}
		switch {
		case o.told.Refused != 0:
			return nil
		case begun.IsZero():
			begun = time.Now()
		case time.Since(begun) > maxLag+lagSlack:
			return fmt.Errorf("fault: %s has not missed its replica within %v", o.server.Addr(),
				maxLag+lagSlack)
		}
	}
}

func (o *former) heal() error {
	if o.server == nil {
		return nil
	}
	var err error
	if o.sights != nil {
		o.told.Seen, err = o.sights.stop()
	}
	err = errors.Join(err, o.server.RefuseDemotion(false))
	o.cut(false)
	err = errors.Join(err, o.field.Deployment.Sentinel.Patience(false))
	if o.guarded { // it may write again once it is a replica, which does not
		err = errors.Join(err, o.field.Deployment.AwaitWhole(),
			do(o.server, "CONFIG", "SET", "min-replicas-to-write", "0"))
	}
	return err
}

// cut cuts the deaf off from the Sentinels, or lets them hear again.
func (o *former) cut(on bool) {
	for _, worker := range o.deaf {
		for _, p := range o.field.ears(worker) {
			p.Refuse(on)
			if on {
				p.Reset()
			}
		}
	}
}

// ears are a worker's links to the Sentinels.
func (f *Field) ears(worker int) []*proxy.Proxy {
	return f.Links[worker][len(f.Deployment.Servers):]
}

// someWorkers picks at least one, and leaves one out if there are several.
func (f *Field) someWorkers(dice *rand.Rand) []int {
	all := dice.Perm(len(f.Links))
	return all[:1+dice.IntN(max(1, len(all)-1))]
}
