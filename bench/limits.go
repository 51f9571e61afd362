package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tables of limits.
const (
	handedTable = "64 processes, a goroutine each, wait for a limit"
	killedTable = "From the end of a killed holder's TTL to the waiter's slot"
	never       = "A limit that never binds, goroutines: "
	severalAsk  = "Limits of one call of lockmw.Do, goroutines: "
)

// The contestants of limits: see semaphores.go. doing is Lockbeat by lockmw.Do,
// and brief with a TTL of a second. What is written by hand has no line, no
// heartbeat and no token.
const (
	doing    = lockbeat + ", lockmw.Do"
	brief    = lockbeat + ", TTL 1 s"
	sortedAs = "ZSET "
	counted  = "counter "
	expiring = "redisson's algorithm "
)

// slotted is one row of a table of limits.
type slotted struct {
	row, who string
	slots    []int
	shared   bool
}

// compared is a table of limits: the first row is what the others are compared
// with.
type compared struct {
	table      string
	goroutines int
	rows       []slotted
}

// comparisons are those of limits that never bind. A lone caller by hand is
// fastest synchronously, and a crowd by pipelines.
func comparisons() (all []compared) {
	for i, how := range []string{synchronous, pipelined} {
		goroutines := []int{1, 64}[i]
		free := compared{never + strconv.Itoa(goroutines), goroutines, []slotted{
			{"a lock", lockbeat, nil, false},
			{"at most 16", lockbeat, []int{16}, false},
			{"one of 100,000", lockbeat, []int{100_000}, true},
		}}
		for _, kind := range []string{sortedAs, counted, expiring} {
			hand := kind + how
			free.rows = append(free.rows,
				slotted{hand + ", 16", hand, []int{16}, false},
				slotted{hand + ", one of 100,000", hand, []int{100_000}, true},
			)
		}
		calls := compared{severalAsk + strconv.Itoa(goroutines), goroutines, []slotted{
			{"one", doing, []int{16}, false},
			{"two", doing, []int{16, 100_000}, false},
		}}
		all = append(all, free, calls)
	}
	return all
}

// limits measures limits beside locks, and beside semaphores written by hand.
func limits(ctx context.Context, o options, f *figures) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for _, c := range comparisons() {
		if err := f.neverBinds(ctx, o, s, c); err != nil {
			return fmt.Errorf("%s: %w", c.table, err)
		}
	}
	return nil
}

// slots measures how the slots of a limit that is full go to those who wait.
func slots(ctx context.Context, o options, f *figures) error {
	if len(o.contestants(lockbeat)) == 0 {
		return nil
	}
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*o.bound())
	defer cancel()
	if err := f.handedOn(ctx, o, s); err != nil {
		return fmt.Errorf("%s: %w", handedTable, err)
	}
	if err := f.killed(ctx, o, s); err != nil {
		return fmt.Errorf("%s: %w", killedTable, err)
	}
	if err := f.hot(ctx, o, s); err != nil {
		return fmt.Errorf("%s: %w", hotTable, err)
	}
	if err := f.crowded(ctx, o, s); err != nil {
		return fmt.Errorf("%s: %w", crowdedTable, err)
	}
	return nil
}

// neverBinds measures a table in slices that take turns. Ratios are of slices
// of one turn, and a library's are of one process.
func (f *figures) neverBinds(ctx context.Context, o options, s server, c compared) error {
	times, span := 7, 100*time.Millisecond
	if o.short {
		times, span = 1, 20*time.Millisecond
	}
	crews := make(map[string]crew)
	defer func() {
		for _, one := range crews {
			one.end()
		}
	}()
	var rows []slotted
	for _, one := range c.rows {
		if len(o.contestants(one.who)) == 0 {
			continue
		}
		rows = append(rows, one)
		if crews[one.who] == nil {
			var err error
			crews[one.who], err = startCrew(ctx, 1, setup{takingTurns, one.who, s.Addr(), ""})
			if err != nil {
				return err
			}
		}
	}
	for slice := range times + 1 {
		rates := make([]float64, len(rows))
		sums, uses := make([]taken, len(rows)), make([]usage, len(rows))
		for _, i := range rand.Perm(len(rows)) {
			one := rows[i]
			t := turns{
				Name: one.row, Own: true, Slots: one.slots, Shared: one.shared,
				Goroutines: c.goroutines, Span: span,
			}
			var err error
			if sums[i], uses[i], err = t.together(crews[one.who], s); err != nil {
				return fmt.Errorf("%s: %w", one.row, err)
			}
			rates[i] = float64(sums[i].total()) / sums[i].Took.Seconds()
		}
		for i, one := range rows {
			if slice == 0 { // it warms up
				continue
			}
			f.addCycles(c.table, one.row, sums[i], uses[i])
			if i > 0 {
				f.add(c.table, one.row, "÷ "+rows[0].row, rates[i]/rates[0])
			}
			hand := slices.IndexFunc(rows, func(r slotted) bool {
				return strings.HasPrefix(r.who, sortedAs) && r.shared == one.shared
			})
			if hand >= 0 && one.who == lockbeat && one.slots != nil {
				f.add(c.table, one.row, "÷ ZSET by hand", rates[i]/rates[hand])
			}
		}
	}
	return nil
}

// handedOn lets processes wait for four slots, and for a lock.
func (f *figures) handedOn(ctx context.Context, o options, s server) error {
	processes, span := 64, 500*time.Millisecond
	if o.short {
		processes, span = 6, 100*time.Millisecond
	}
	all, err := startCrew(ctx, processes, setup{takingTurns, lockbeat, s.Addr(), ""})
	if err != nil {
		return err
	}
	defer all.end()
	const times = 3
	for slice := range times + 1 {
		rates := make(map[string]float64)
		for _, one := range []slotted{{row: "a lock"}, {row: "4 slots", slots: []int{4}}} {
			t := turns{
				Name: fmt.Sprint(one.row, slice), Slots: one.slots, Goroutines: 1, Span: span,
			}
			sum, use, err := t.together(all, s)
			if err != nil {
				return fmt.Errorf("%s: %w", one.row, err)
			}
			if slice == 0 { // it warms up
				continue
			}
			rates[one.row] = float64(sum.total()) / sum.Took.Seconds()
			if err := f.addTurns(handedTable, one.row, sum, use); err != nil {
				return err
			}
		}
		if slice > 0 {
			f.add(handedTable, "4 slots", "÷ a lock", rates["4 slots"]/rates["a lock"])
		}
	}
	return nil
}

// killed kills one of two who have the slots of a limit, while a third waits.
func (f *figures) killed(ctx context.Context, o options, s server) error {
	times := 10
	if o.short {
		times = 1
	}
	live, err := connect(brief, s.Addr())
	if err != nil {
		return err
	}
	defer live.close()
	waiter, err := connect(brief, s.Addr())
	if err != nil {
		return err
	}
	defer waiter.close()
	took := make([]time.Duration, times)
	for i := range took {
		if took[i], err = killOne(ctx, s, live, waiter); err != nil {
			return err
		}
	}
	f.addTimes(killedTable, lockbeat, "", took)
	return nil
}

func killOne(ctx context.Context, s server, live, waiter library) (took time.Duration, err error) {
	name := fmt.Sprint("killed", rand.Int64())
	mine, theirs := live.limit(name, "", []int{2}), waiter.limit(name, "", []int{2})
	if err := mine.lock(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, mine.unlock(ctx)) }()
	victim, err := startChild(ctx, setup{takingTurns, brief, s.Addr(), ""})
	if err != nil {
		return 0, err
	}
	defer victim.end()
	go func() { // it is killed meanwhile
		_ = victim.ask(turns{
			Name: name, Slots: []int{2}, Goroutines: 1, Work: time.Minute,
		}, nil)
	}()
	time.Sleep(inLine)
	var had time.Time
	ended := make(chan error, 1)
	go func() {
		err := theirs.lock(ctx)
		had = time.Now()
		ended <- err
	}()
	time.Sleep(inLine + rand.N(inLine))
	if err := victim.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	_ = victim.cmd.Wait() // says that it was killed; now it renews no more
	first, err := s.Do("ZRANGE", "lockbeat:{"+name+"}:slots", "0", "0", "WITHSCORES").AsZScores()
	if err != nil || len(first) != 1 {
		return 0, fmt.Errorf("who has a slot is not to be read: %w", err)
	}
	if err := <-ended; err != nil {
		return 0, err
	}
	ends := time.UnixMicro(int64(first[0].Score))
	return had.Sub(ends), theirs.unlock(ctx)
}
