//go:build unix

package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// moments is how often each kind of failure strikes.
const moments = 100

// cutConfig has a wide Margin, since the victims of a test share two
// cores with each other and with other tests.
var cutConfig = renewer.Config{
	TTL: 3 * time.Second, Heartbeat: 600 * time.Millisecond, Margin: 1200 * time.Millisecond,
	Node: "victim",
}

// victim is a lease that is about to be cut off.
type victim struct {
	node  *node
	name  string
	lease *renewer.Lease
	told  chan time.Time // when its context ended
	owned lock           // as the server knew it when it was cut off
	rival <-chan got     // another keeper waits for it all the while
}

func seize(n, rival *node, name string) (*victim, error) {
	lease, err := n.keeper.Acquire(context.Background(), name, renewer.MaxWait(patience))
	if err != nil {
		return nil, err
	}
	v := &victim{node: n, name: name, lease: lease, told: make(chan time.Time, 1)}
	context.AfterFunc(lease.Context(), func() { v.told <- time.Now() })
	v.rival = rival.seek(context.Background(), name, renewer.MaxWait(2*patience))
	return v, nil
}

// end leaves nothing behind, also of a trial that failed half-way.
func (v *victim) end() {
	_ = v.lease.Release(context.Background()) // a second time: it does nothing
	if heir, open := <-v.rival; open && heir.err == nil {
		_ = heir.lease.Release(context.Background())
	}
}

// cutOff is called when no request of the victim can reach the server any more.
// What was under way by then can only make the key last longer than is noted here.
func (v *victim) cutOff() (err error) {
	if err := v.lease.Context().Err(); err != nil {
		return fmt.Errorf("%s: ended before it was cut off: %w", v.name,
			context.Cause(v.lease.Context()))
	}
	v.owned, err = look(v.node.server, v.name)
	if err == nil && v.owned.value == "" {
		err = fmt.Errorf("%s: the key had gone before it was cut off", v.name)
	}
	return err
}

// judge waits for the victim to be told and returns how long before its key's expiry that was.
func (v *victim) judge() (notice time.Duration, err error) {
	select {
	case at := <-v.told:
		notice = v.owned.expires.Sub(at)
	case <-time.After(patience):
		return 0, fmt.Errorf("%s: never told", v.name)
	}
	cause := context.Cause(v.lease.Context())
	var lost *renewer.LostError
	switch {
	case !errors.Is(cause, renewer.ErrLost) || !errors.As(cause, &lost) ||
		lost.Reason != renewer.ReasonExpired:
		return notice, fmt.Errorf("%s: the cause is %w, not that it expired", v.name, cause)
	case lost.Left <= 0:
		return notice, fmt.Errorf("%s: told with %v left", v.name, lost.Left)
	case notice <= 0:
		return notice, fmt.Errorf("%s: told %v after the key could expire", v.name, -notice)
	}
	return notice, nil
}

// inherit waits for the rival to get the lock, and proves that it came after the victim
// was told, with a higher fence, and that the victim's late release leaves it alone.
func (v *victim) inherit(told time.Time, reconnect func()) error {
	heir := <-v.rival // closed after it, for end
	if heir.err != nil {
		return fmt.Errorf("%s: the rival never got it: %w", v.name, heir.err)
	}
	defer func() { _ = heir.lease.Release(context.Background()) }()
	if !heir.at.After(told) {
		return fmt.Errorf("%s: two holders for %v", v.name, told.Sub(heir.at))
	}
	if heir.lease.Fence() <= v.lease.Fence() {
		return fmt.Errorf("%s: fence %d after %d", v.name, heir.lease.Fence(), v.lease.Fence())
	}
	before, err := look(v.node.server, v.name)
	if err != nil {
		return err
	}
	reconnect()
	if err := v.lease.Release(context.Background()); !errors.Is(err, renewer.ErrLost) {
		return fmt.Errorf("%s: a late release said %w", v.name, err)
	}
	after, err := look(v.node.server, v.name)
	if err == nil && (after.value != before.value || after.value == "") {
		err = fmt.Errorf("%s: the rival's key changed from %q to %q", v.name, before.value,
			after.value)
	}
	if cause := context.Cause(heir.lease.Context()); cause != nil {
		return fmt.Errorf("%s: the rival was disturbed: %w", v.name, cause)
	}
	return err
}

// report requires that all went well, and logs how early the victims were told.
func report(t *testing.T, notices []time.Duration, errs []error) {
	t.Helper()
	require.Len(t, notices, moments)
	failures := 0
	for _, err := range errs {
		if err != nil {
			failures++
			assert.NoError(t, err)
		}
	}
	slices.Sort(notices)
	t.Logf("%d of %d told in time, before expiry by: least %v, median %v, most %v",
		moments-failures, moments, notices[0], notices[moments/2], notices[moments-1])
}

//nolint:paralleltest // a hundred at once are enough for two cores
func TestLinkBlackholed(t *testing.T) {
	random, pulse := roll(t), feel(t, cutConfig.Margin/4)
	server := redistest.Start(t)
	rival := join(t, server, renewer.Config{TTL: renewer.DefaultTTL, Node: "rival"})
	nodes := make([]*node, moments)
	for i := range nodes {
		nodes[i] = join(t, server, cutConfig)
	}
	notices, errs := make([]time.Duration, moments), make([]error, moments)
	var trials sync.WaitGroup
	for i, n := range nodes {
		trials.Go(func() {
			pass(random.between(0, 2*time.Second)) // lest all ask at once
			direction := []proxy.Direction{proxy.Up, proxy.Down, proxy.Both}[i%3]
			pulse.fairly(func(try int) bool {
				name := fmt.Sprintf("hole %d.%d", i, try)
				notices[i], errs[i] = blackhole(n, rival, name, random.between(0, time.Second),
					direction)
				return errs[i] == nil
			})
		})
	}
	trials.Wait()
	report(t, notices, errs)
}

func blackhole(
	n, rival *node, name string, after time.Duration, direction proxy.Direction,
) (time.Duration, error) {
	v, err := seize(n, rival, name)
	if err != nil {
		return 0, err
	}
	defer v.end()
	pass(after)
	n.link.Blackhole(direction)
	if err := v.cutOff(); err != nil {
		return 0, err
	}
	notice, err := v.judge()
	if err != nil {
		return notice, err
	}
	now, err := look(n.server, name)
	if err != nil {
		return notice, err
	}
	// The link is down in one direction at least, so the key is as
	// the victim left it: still its own.
	if now.value != v.owned.value && time.Now().Before(v.owned.expires) {
		return notice, fmt.Errorf("%s: the key was no longer its own when it was told: %q", name,
			now.value)
	}
	return notice, v.inherit(v.owned.expires.Add(-notice), n.link.Heal)
}

func TestServerFrozen(t *testing.T) { //nolint:paralleltest // as above
	random, pulse := roll(t), feel(t, cutConfig.Margin/4)
	const servers, victims = moments / 5, 5 // 20 moments, each in 5 rhythms
	notices, errs := make([]time.Duration, moments), make([]error, moments)
	frosts := make([]*frost, servers)
	for s := range frosts {
		server := redistest.Start(t)
		f := &frost{server: server, link: proxy.Start(t, server.Addr()), random: random}
		f.rival = join(t, server, renewer.Config{TTL: renewer.DefaultTTL, Node: "rival"})
		for range victims {
			f.nodes = append(f.nodes, joinBy(t, server, f.link, cutConfig))
		}
		frosts[s] = f
	}
	var trials sync.WaitGroup
	for s, f := range frosts {
		trials.Go(func() {
			pulse.fairly(func(try int) bool {
				mine := errs[s*victims:][:victims]
				clear(mine)
				f.strike(fmt.Sprintf("frost %d.%d", s, try), notices[s*victims:][:victims], mine)
				return errors.Join(mine...) == nil
			})
		})
	}
	trials.Wait()
	report(t, notices, errs)
}

// frost freezes one server with several victims on it.
type frost struct {
	server *redistest.Server
	link   *proxy.Proxy // of all victims
	random *dice
	rival  *node
	nodes  []*node
}

func (f *frost) strike(name string, notices []time.Duration, errs []error) {
	victims := make([]*victim, len(f.nodes))
	each := func(do func(i int) error) {
		var all sync.WaitGroup
		for i := range f.nodes {
			all.Go(func() {
				if errs[i] == nil {
					errs[i] = do(i)
				}
			})
		}
		all.Wait()
	}
	pass(f.random.between(0, time.Second)) // lest all servers freeze together
	each(func(i int) (err error) {
		pass(f.random.between(0, 700*time.Millisecond))
		victims[i], err = seize(f.nodes[i], f.rival, fmt.Sprintf("%s.%d", name, i))
		return err
	})
	pass(f.random.between(0, 700*time.Millisecond))
	// Requests are held back for the moment in which the keys' expiry
	// is read; they reach the frozen server's socket.
	f.link.Blackhole(proxy.Up)
	each(func(i int) error { return victims[i].cutOff() })
	if err := f.server.Stop(); err != nil {
		errs[0] = errors.Join(errs[0], err)
	}
	f.link.Heal()
	latest := time.Now()
	each(func(i int) (err error) {
		notices[i], err = victims[i].judge()
		return err
	})
	for _, v := range victims {
		if v != nil && v.owned.expires.After(latest) {
			latest = v.owned.expires
		}
	}
	// Thawed any earlier, the server would find the renewals in its
	// socket in time, and the rivals would have to wait.
	pass(time.Until(latest) + 2*time.Millisecond)
	if err := f.server.Cont(); err != nil {
		errs[0] = errors.Join(errs[0], err)
	}
	each(func(i int) error {
		return victims[i].inherit(victims[i].owned.expires.Add(-notices[i]), func() {})
	})
	for _, v := range victims {
		if v != nil {
			v.end()
		}
	}
}
