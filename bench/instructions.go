package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// The table of what a server does for one caller at a time.
const (
	costTable = "What redis-server does for one caller at a time"
	costIr    = "instructions"
	costHand  = "÷ by hand"
	costAOF   = "bytes of its log (AOF)"
	scripted  = lockbeat + ", by scripts alone"
	handOver  = lockbeat + ", from process to process"
	renewal   = lockbeat + ", a renewal of 100, each"
)

// kept are instructions ÷ those by hand: a change that moves one by more than
// keptWithin fails, or changes it here. They are of redis keptFor, as Debian
// builds it. Of a loop of claims, one goes by script each 100 ms, so the slower
// the machine, the more: keptNative is the most of one that does not.
var kept = map[string]float64{scripted: 3.33, handOver: 6.11, renewal: 0.45}

const (
	keptNative = 1.4
	keptFor    = "7.0.15, amd64"
	keptWithin = 0.03
)

// deed is what is done over and over, for so many locks at once.
type deed struct {
	row   string
	times int
	locks int
	warm  time.Duration // at least
	open  func(addr string) (once func() error, closeAll func(), err error)
}

// deeds are what is counted. A server collects Lua's garbage at each fiftieth
// script: so that the number of scripts is a multiple of that.
func deeds(o options) (all []deed) {
	for _, who := range o.contestants(append([]string{synchronous}, libraries...)...) {
		d := deed{row: who, times: 100, locks: 1}
		d.open = func(addr string) (func() error, func(), error) { return takeAndFree(who, addr) }
		if who == lockbeat {
			d.warm = 1500 * time.Millisecond // by then, claims need no script
		}
		all = append(all, d)
	}
	if len(o.contestants(lockbeat)) > 0 {
		all = append(all,
			deed{row: scripted, times: 100, locks: 1, open: takeByScript},
			deed{row: handOver, times: 50, locks: 1, open: handOn},
			deed{row: renewal, times: 50, locks: 100, open: renew})
	}
	return all
}

// instructions counts those of a server, which no other load of the machine
// changes, and what it would write to disk.
func instructions(ctx context.Context, o options, f *figures) error {
	if _, err := exec.LookPath("valgrind"); err != nil {
		f.note("%s: not measured: no valgrind; `make bench-instructions` installs it", costTable)
		return nil
	}
	version, err := redisVersion()
	if err != nil {
		return err
	}
	under, err := openCallgrind(ctx)
	if err != nil {
		return err
	}
	defer under.close()
	logging, err := openServer("--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		return err
	}
	defer func() { _ = logging.Close() }()
	var byScript float64 // of a lone caller's claims
	for _, d := range deeds(o) {
		ir, scripts, err := d.each(under.addr, under.instructions, under.scripts)
		if err != nil {
			return fmt.Errorf("%s: %w", d.row, err)
		}
		bytes, _, err := d.each(logging.Addr(), logging.logged, logging.scripts)
		if err != nil {
			return fmt.Errorf("%s: %w", d.row, err)
		}
		if d.row == lockbeat {
			byScript = scripts - 1 // each is freed by one
		}
		f.add(costTable, d.row, costIr, ir)
		if hand := f.at(costTable, synchronous, costIr); hand > 0 { // it was asked for
			f.add(costTable, d.row, costHand, ir/hand)
		}
		f.add(costTable, d.row, costAOF, bytes)
	}
	if version+", "+runtime.GOARCH != keptFor {
		f.note("%s: not judged: figures are kept for redis %s", costTable, keptFor)
		return nil
	}
	for row, want := range kept {
		// Where by hand was not asked for, it is not a number, and no error.
		is := f.at(costTable, row, costHand)
		if math.Abs(is/want-1) > keptWithin {
			f.errs = append(f.errs, fmt.Errorf("%s: %s: %.3f × by hand, where %.3f is kept in "+
				"bench/instructions.go", costTable, row, is, want))
		}
	}
	most := keptNative*(1-byScript) + kept[scripted]*byScript
	if is := f.at(costTable, lockbeat, costHand); is > most {
		f.errs = append(f.errs, fmt.Errorf("%s: %s: %.3f × by hand, where %.3f is the most that "+
			"bench/instructions.go allows if %.0f %% are claimed by script", costTable, lockbeat,
			is, most, 100*byScript))
	}
	return nil
}

// each is what one of a deed's locks costs, once all is warm, and how many
// scripts run for it. spent and scripts are read before and after.
func (d deed) each(addr string, spent func() (float64, error), scripts func() (int, error)) (
	cost, run float64, err error,
) {
	once, closeAll, err := d.open(addr)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll()
	const warm = 10
	for begun, i := time.Now(), 0; i < warm || time.Since(begun) < d.warm; i++ {
		if err := once(); err != nil {
			return 0, 0, err
		}
	}
	ranBefore, err := scripts()
	if err != nil {
		return 0, 0, err
	}
	before, err := spent()
	if err != nil {
		return 0, 0, err
	}
	for range d.times {
		if err := once(); err != nil {
			return 0, 0, err
		}
	}
	after, err := spent()
	if err != nil {
		return 0, 0, err
	}
	ran, err := scripts()
	all := float64(d.times * d.locks)
	return (after - before) / all, float64(ran-ranBefore) / all, err
}

func takeAndFree(who, addr string) (once func() error, closeAll func(), err error) {
	lib, err := connect(who, addr)
	if err != nil {
		return nil, nil, err
	}
	return cycleOf(lib), lib.close, nil
}

func cycleOf(lib library) func() error {
	m, ctx := lib.mutex("order:12345"), context.Background()
	return func() error {
		if err := m.lock(ctx); err != nil {
			return err
		}
		return m.unlock(ctx)
	}
}

// takeByScript does the same as a user who has no right to claim without a
// script.
func takeByScript(addr string) (once func() error, closeAll func(), err error) {
	option := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	admin, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	defer admin.Close()
	err = admin.Do(context.Background(), admin.B().Arbitrary("ACL", "SETUSER", "scripts", "on",
		">scripts", "~*", "&*", "+@all", "-incr").Build()).Error()
	if err != nil {
		return nil, nil, err
	}
	option.Username, option.Password = "scripts", "scripts"
	lib, err := oursFor(ttl)(option)
	if err != nil {
		return nil, nil, err
	}
	return cycleOf(lib), lib.close, nil
}

// peer is a client whose link tells when it has heard something.
type peer struct {
	mutex mutex
	heard chan struct{}
	close func()
}

func newPeer(addr string) (*peer, error) {
	link, err := proxy.New(addr)
	if err != nil {
		return nil, err
	}
	heard := make(chan struct{}, 1)
	link.DropMatching(func([]byte) bool {
		select {
		case heard <- struct{}{}:
		default:
		}
		return false
	})
	lib, err := connect(lockbeat, link.Addr())
	if err != nil {
		link.Close()
		return nil, err
	}
	return &peer{lib.mutex("order:12345"), heard, func() {
		lib.close()
		link.Close()
	}}, nil
}

// handOn has a lock go from one client to another and back, as between
// processes.
func handOn(addr string) (once func() error, closeAll func(), err error) {
	has, err := newPeer(addr)
	if err != nil {
		return nil, nil, err
	}
	next, err := newPeer(addr)
	if err != nil {
		has.close()
		return nil, nil, err
	}
	ctx := context.Background()
	if err := has.mutex.lock(ctx); err != nil {
		next.close()
		has.close()
		return nil, nil, err
	}
	closeAll = func() {
		_ = has.mutex.unlock(ctx) // for which its close would wait
		next.close()
		has.close()
	}
	return func() error {
		select {
		case <-next.heard: // of its own turn
		default:
		}
		ended := make(chan error, 1)
		go func() { ended <- next.mutex.lock(ctx) }()
		select {
		case <-next.heard: // it stands in line
		case err := <-ended:
			return errors.Join(err, errOverlap)
		}
		err := errors.Join(has.mutex.unlock(ctx), <-ended)
		has, next = next, has
		return err
	}, closeAll, nil
}

// renew renews a hundred leases at once, as a heartbeat does.
func renew(addr string) (once func() error, closeAll func(), err error) {
	s, err := newStore(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true,
	}, ttl)
	if err != nil {
		return nil, nil, err
	}
	claims, holds := make([]store.Claim, 100), make([]store.Hold, 100)
	for i := range claims {
		name, owner := fmt.Sprintf("order:%05d", i), fmt.Sprintf("%022d", i)
		claims[i] = store.Claim{Name: name, Owner: owner, TTL: ttl}
		holds[i] = store.Hold{Name: name, Owner: owner, TTL: ttl}
	}
	ctx, cancel := context.WithCancel(context.Background())
	closeAll = func() {
		cancel()
		s.Close()
	}
	for _, g := range s.Engine().Acquire(ctx, claims) {
		if g.Status != store.StatusHeld {
			closeAll()
			return nil, nil, errors.Join(g.Err, errors.New("a free lock was refused"))
		}
	}
	return func() error {
		time.Sleep(2 * time.Millisecond) // so that each TTL grows, which it does by whole ms
		for _, a := range s.Engine().Renew(ctx, holds) {
			if a.Status != store.StatusHeld {
				return errors.Join(a.Err, errors.New("a lease was lost"))
			}
		}
		return nil
	}, closeAll, nil
}
