package view

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// readAtOnce is of how many names the server's time is asked once.
const readAtOnce = 1000

// List implements [store.Inspector]: by SCAN on each primary, and then by
// commands that read the keys of the names wanted. Of a limit 10,000 slots are
// shown at most. Keys of a cluster that move to another server meanwhile may be
// missing. It goes on with the other servers where one fails, and its error
// comes last.
func (v *View) List(
	ctx context.Context, want func(name string, limit bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) {
		l := lister{
			view: v, want: want, yield: yield, seen: make(map[contract.Name]seen),
			tasks: make(map[contract.Name][]string), looks: v.newLooks(refusal.OpList),
		}
		nodes, err := v.primaries(ctx)
		errs := []error{err}
		for _, node := range nodes {
			more, err := l.list(ctx, node)
			if !more {
				return
			}
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
		}
		if err := errors.Join(errs...); err != nil {
			yield(store.Lock{}, err)
		}
	}
}

// primaries returns a client for each server that has locks.
func (v *View) primaries(ctx context.Context) (nodes []rueidis.Client, err error) {
	if v.sender.Topology == nil {
		return []rueidis.Client{v.sender.Client}, nil
	}
	v.sender.Topology.Learn(ctx)
	known := v.sender.Client.Nodes()
	for _, addr := range v.sender.Topology.Primaries() {
		if node := known[addr]; node != nil {
			nodes = append(nodes, node)
		} else {
			err = fmt.Errorf("redisstore: list: the client has no connection to %s: try again",
				addr)
		}
	}
	if len(nodes) == 0 && err == nil {
		err = fmt.Errorf("redisstore: list: no server has told who serves what in the cluster: %w",
			refusal.ErrLater)
	}
	return nodes, err
}

// lister is one call of List.
type lister struct {
	view  *View
	want  func(name string, limit bool) bool
	yield func(store.Lock, error) bool
	seen  map[contract.Name]seen     // SCAN may tell a key twice
	tasks map[contract.Name][]string // the keys of lines of tasks, by name
	looks *looks
	found []found // those that are read
}

// seen is what the keys of a name have shown of it.
type seen uint8

const (
	seenWanted seen = 1 << iota
	seenToRead      // an owner has it, or another program its key, or tasks stand in line for it
	seenLine        // places stand in line
	seenRead
)

// list reads all names of a server: at first all keys, since those that stand
// beside a lease tell what else there is to read of it.
func (l *lister) list(ctx context.Context, node rueidis.Client) (more bool, err error) {
	var names []contract.Name
	for cursor := uint64(0); ; {
		entry, err := l.scan(ctx, node, cursor)
		if err != nil {
			return true, err
		}
		for _, key := range entry.Elements {
			if name, ok := l.take(key); ok {
				names = append(names, name)
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			break
		}
	}
	for part := range slices.Chunk(names, readAtOnce) {
		if more, err := l.read(ctx, node, part); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// scan looks at some keys of a server.
func (l *lister) scan(
	ctx context.Context, node rueidis.Client, cursor uint64,
) (rueidis.ScanEntry, error) {
	ctx, cancel := l.view.bounded(ctx)
	defer cancel()
	scan := node.B().Scan().Cursor(cursor).Match(schema.Pattern(l.view.prefix)).
		Count(wire.ScanStep)
	entry, err := wire.Do(ctx, node, scan.Build()).AsScanEntry()
	if err != nil {
		err = l.view.errors.Wrap(refusal.OpList, err)
	}
	return entry, err
}

// take notes what a key shows, and reports whether it is the first to show that
// its name is to be read: it is wanted, and leased, or tasks stand in line for
// it. Places alone are of the dead.
func (l *lister) take(key string) (name contract.Name, ok bool) {
	name, beside, ok := schema.ReadKey(l.view.prefix, key)
	tasks := beside == schema.TasksSuffix || strings.HasPrefix(beside, schema.TasksSuffix+":")
	if !ok || beside != "" && beside != schema.LineSuffix && !tasks {
		return name, false
	}
	had, known := l.seen[name]
	now := had
	if !known && (l.want == nil || l.want(name.Text, name.Limit)) {
		now = seenWanted
	}
	switch {
	case now&seenWanted == 0:
	case beside == schema.LineSuffix:
		now |= seenLine
	default:
		now |= seenToRead
		if tasks && !slices.Contains(l.tasks[name], key) {
			l.tasks[name] = append(l.tasks[name], key)
		}
	}
	if now != had || !known {
		l.seen[name] = now
	}
	return name, now&seenToRead > had&seenToRead
}

// read shows the caller some names, without those that have been freed
// meanwhile.
func (l *lister) read(
	ctx context.Context, node rueidis.Client, names []contract.Name,
) (more bool, err error) {
	l.found = l.found[:0]
	for _, name := range names {
		had := l.seen[name]
		if had&seenRead != 0 {
			continue // on another server of the cluster, from which it has moved
		}
		l.seen[name] = had | seenRead
		f := newFound(l.view.prefix, name)
		f.waits, f.tasks = had&seenLine != 0, l.tasks[name]
		l.found = append(l.found, f)
	}
	if err := l.view.readAll(ctx, l.looks, node, l.found, nil); err != nil {
		return true, err
	}
	all := l.found
	for i := range all {
		if all[i].isListed() && !l.yield(all[i].lock, nil) {
			return false, nil
		}
	}
	return true, nil
}
