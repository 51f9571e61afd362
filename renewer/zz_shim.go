package renewer

import (
	"context"
	"math"
	"time"
)

type Newest uint8

const (
	AnyCall Newest = iota
	NewestWaits
	NewestReplaces
)

type Request struct {
	Name            string
	Limit           func() int
	Operation       string
	MaxWait         time.Duration
	Try             bool
	MaxWaiters      int
	MaxHold         time.Duration
	Manual          time.Duration
	Newest          Newest
	Rank            int64
	LongRunning     bool
	RefusalExpected bool
	StandBy         bool
}

func (r Request) Opts() (o []Option) {
	if r.Limit != nil {
		o = append(o, AtMost(func(string) int { return r.Limit() }))
	}
	o = append(o, Operation(r.Operation))
	if r.MaxWait != 0 {
		o = append(o, MaxWait(r.MaxWait))
	}
	o = append(o, MaxWaiters(r.MaxWaiters))
	if r.MaxHold == math.MaxInt64 {
		o = append(o, MaxHold(0))
	} else if r.MaxHold != 0 {
		o = append(o, MaxHold(r.MaxHold))
	}
	if r.Manual != 0 {
		o = append(o, Manual(r.Manual))
	}
	if r.Newest == NewestWaits {
		o = append(o, Latest())
	} else if r.Newest == NewestReplaces {
		o = append(o, Replace())
	}
	if r.Rank != 0 {
		o = append(o, Rank(r.Rank))
	}
	if r.LongRunning {
		o = append(o, LongRunning())
	}
	if r.StandBy {
		o = append(o, StandBy())
	}
	if r.RefusalExpected {
		o = append(o, RefusalExpected())
	}
	return o
}

func (k *Keeper) AcquireR(ctx context.Context, r Request) (*Lease, error) {
	if r.Try {
		return k.TryAcquire(ctx, r.Name, r.Opts()...)
	}
	return k.Acquire(ctx, r.Name, r.Opts()...)
}

func (k *Keeper) Check(r Request) error { return nil }
