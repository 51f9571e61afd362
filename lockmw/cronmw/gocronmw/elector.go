package gocronmw

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultSettle is how long a new leader waits before it runs jobs, unless [Settle] says otherwise.
const DefaultSettle = schedulers.DefaultSettle

// ErrNotLeader is what IsLeader returns on every node but one.
var ErrNotLeader = errors.New("lockbeat: another node leads")

var _ gocron.Elector = (*Elector)(nil)

// ElectorOption says how an [Elector] leads.
type ElectorOption func(*schedulers.Settle)

// Settle is how long a new leader waits before it runs jobs: longer than clocks
// differ, so that it does not run a tick that the leader before it has. Default
// [DefaultSettle] (1 s); 0 for not at all. Negative durations are refused.
func Settle(d time.Duration) ElectorOption {
	return func(s *schedulers.Settle) { *s = schedulers.Settle(d) }
}

// Elector has one node of many run the jobs of its scheduler, for as
// long as it lives. Its methods may be called concurrently.
type Elector struct {
	key    string
	cancel context.CancelFunc
	lead   atomic.Pointer[leadership]
	done   chan struct{}
	err    error // why it stands by no longer; once done is closed
}

// leadership is a lead that this node has, or had.
type leadership struct{ ctx context.Context }

// NewElector stands for election, under the name that the nodes have in common, until
// Close, or until ctx ends. The error is [renewer.ErrConfig] or [renewer.ErrName].
func NewElector(
	ctx context.Context, k *renewer.Keeper, name string, opts ...ElectorOption,
) (*Elector, error) {
	settle := schedulers.Settle(DefaultSettle)
	for _, opt := range opts {
		opt(&settle)
	}
	e := &Elector{key: lockmw.Key(schedulers.OfElector, name), done: make(chan struct{})}
	if k == nil {
		return nil, fmt.Errorf("%w: NewElector needs a keeper: renewer.New", renewer.ErrConfig)
	}
	if err := errors.Join(settle.Check(), renewer.CheckName(e.key)); err != nil {
		return nil, err
	}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		e.err = lockmw.RunWhileHeld(ctx, k, e.key, func(ctx context.Context) error {
			if err := settle.Pass(ctx); err != nil {
				return err
			}
			e.lead.Store(&leadership{ctx})
			defer e.lead.Store(nil)
			<-ctx.Done()
			return context.Cause(ctx)
		}, lockmw.Operation(name))
	}()
	return e, nil
}

// IsLeader reports to gocron whether this node is to run a job: nil if it leads,
// by the clock. Otherwise the error is [ErrNotLeader], with the reason if this
// node stands for election no longer: the keeper is shut down, or ctx has ended.
func (e *Elector) IsLeader(context.Context) error {
	if l := e.lead.Load(); l != nil && lockmw.Held(l.ctx, e.key) && l.ctx.Err() == nil {
		return nil
	}
	select {
	case <-e.done:
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	default:
		return ErrNotLeader
	}
}

// Close resigns, so that another node leads in a moment, and returns when that is done. Stop
// the scheduler first. The error is why this node had stood for election no longer before,
// other than that ctx had ended; nil if it still did. A second call returns the same.
func (e *Elector) Close() error {
	e.cancel()
	<-e.done
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		return nil
	}
	return e.err
}
