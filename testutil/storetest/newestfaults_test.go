package storetest_test

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// newestFaults are those of a Replacer.
var newestFaults = map[string]fault{
	"an older call is the newest": {broken{replace: replaces(func(r *contract.Replacement) {
		r.Newness = store.Newness{Age: 1}
	})}, "the call that came last is the newest"},
	"all names have one newest call": {broken{replace: replaces(func(r *contract.Replacement) {
		r.Name = "name"
	})}, "the call that came last is the newest"},
	"who has the lock is not known to be newer": {broken{acquire: grants(func(c *store.Claim) {
		c.Newness = store.Newness{}
	}, nil)}, "a late call does not break a newer one's lease"},
	"a call is noted for good": {broken{replace: func(
		s S, ctx C, r contract.Replacement,
	) (int64, error) {
		if r.Over {
			return 0, nil
		}
		return s.Replace(ctx, r)
	}}, "a call that does not wait any more is forgotten"},
	"any call that leaves has all forgotten": {func() broken {
		newest := make(map[string]string)
		return broken{replace: func(s S, ctx C, r contract.Replacement) (int64, error) {
			if r.Over {
				r.Owner = newest[r.Name]
			} else {
				newest[r.Name] = r.Owner
			}
			return s.Replace(ctx, r)
		}}
	}(), "a call that does not wait any more is forgotten"},
	"a note lives on": {func() broken {
		var last int64
		return broken{replace: func(s S, ctx C, r contract.Replacement) (int64, error) {
			if since := r.Newness.Since; since != 0 && since < last {
				return 0, nil
			}
			since, err := s.Replace(ctx, r)
			last = max(last, since)
			return since, err
		}}
	}(), "a call is forgotten that is not repeated"},
	"an older call breaks the lease": {broken{replace: func(
		s S, ctx C, r contract.Replacement,
	) (int64, error) {
		since, err := s.Replace(ctx, r)
		if since == 0 && r.Break {
			breakNow(s, ctx, r)
		}
		return since, err
	}}, "only the newest call breaks the lease"},
	"no call breaks the lease": {broken{replace: replaces(func(r *contract.Replacement) {
		r.Break = false
	})}, "only the newest call breaks the lease"},
	"a call breaks what it was granted": {broken{replace: func(
		s S, ctx C, r contract.Replacement,
	) (int64, error) {
		if r.Break {
			breakNow(s, ctx, r)
		}
		return s.Replace(ctx, r)
	}}, "a call does not break its own lease"},
	"no process hears": {broken{
		onBreak: func(S, store.Holder, func(string, bool)) func() { return func() {} },
	}, "the process hears of a newer call"},
	"ranks are not heeded": {broken{replace: replaces(func(r *contract.Replacement) {
		r.Newness.Rank = 0
	})}, "the greater rank is the newest"},
	"ranks are doubles": {broken{replace: replaces(func(r *contract.Replacement) {
		r.Newness.Rank = int64(float64(r.Newness.Rank))
	})}, "the greater rank is the newest"},
	"the same rank is older": {func() broken {
		var age time.Duration
		return broken{replace: replaces(func(r *contract.Replacement) {
			age += time.Hour
			r.Newness.Age = age
		})}
	}(), "the greater rank is the newest"},
	"what has begun is not known": {broken{acquire: grants(func(c *store.Claim) {
		c.Newness.Rank = 0
	}, nil)}, "an older call does not begin after a newer one"},
	"the same work does not begin again": {func() broken {
		var last int64
		return broken{acquire: grants(func(c *store.Claim) {
			if c.Newness.Rank == last {
				c.Newness.Rank--
			}
			last = c.Newness.Rank
		}, nil)}
	}(), "an older call does not begin after a newer one"},
	"calls go by when they reach the store": {broken{acquire: grants(func(c *store.Claim) {
		c.Newness.Age = min(c.Newness.Age, 1)
	}, nil)}, "a call goes by when it was made"},
	"calls wait by when they reach the store": {broken{replace: replaces(
		func(r *contract.Replacement) { r.Newness.Age = min(r.Newness.Age, 1) },
	)}, "a call goes by when it was made"},
	"a rank is kept for a minute": {broken{acquire: grants(func(c *store.Claim) {
		c.Newness.Rank = 0
	}, nil)}, "who has had the lock is forgotten in time"},
	"a newest call ignores its context": {broken{replace: func(
		s S, _ C, r contract.Replacement,
	) (int64, error) {
		return s.Replace(context.Background(), r)
	}}, "a newest call and a context that has ended"},
}

// replaces makes a faulty Replace by changing what is asked.
func replaces(before func(*contract.Replacement)) func(S, C, contract.Replacement) (int64, error) {
	return func(s S, ctx C, r contract.Replacement) (int64, error) {
		before(&r)
		return s.Replace(ctx, r)
	}
}

// breakNow breaks the lease of whoever has it.
func breakNow(s S, ctx C, r contract.Replacement) {
	l, err := s.Show(ctx, r.Name, false)
	if err == nil && len(l.Slots) == 1 {
		s.Break(ctx, store.Breaking{
			Name: r.Name, Fence: l.Slots[0].Fence, Broken: store.Broken{Replaced: true},
		})
	}
}
