package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// scanStep is about how many keys, or fields, a server looks at for one command: some 0.1 ms.
	scanStep = 250
	// readAtOnce is how many names are read at once: others wait for some 0.2 ms meanwhile.
	readAtOnce = 100
)

var _ store.Inspector = (*Store)(nil)

// List implements [store.Inspector]: by SCAN on each primary, and then by commands that read the
// keys of the names wanted. Of a limit 10,000 slots are shown at most. Keys of a cluster that move
// to another server meanwhile may be missing. It goes on with the other servers where one fails,
// and its error comes last.
func (s *Store) List(
	ctx context.Context, want func(name string, limit bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) {
		l := lister{store: s, want: want, seen: make(map[string]struct{}), yield: yield}
		nodes, err := s.primaries(ctx)
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
func (s *Store) primaries(ctx context.Context) (nodes []rueidis.Client, err error) {
	if s.topology == nil {
		return []rueidis.Client{s.sender.Client}, nil
	}
	s.topology.Learn(ctx)
	known := s.sender.Client.Nodes()
	for _, addr := range s.topology.Primaries() {
		if node := known[addr]; node != nil {
			nodes = append(nodes, node)
		} else {
			err = fmt.Errorf("redisstore: list: the client has no connection to %s: try again",
				addr)
		}
	}
	if len(nodes) == 0 && err == nil {
		err = fmt.Errorf("redisstore: list: no server has told who serves what in the cluster: %w",
			errLater)
	}
	return nodes, err
}

// lister is one call of List.
type lister struct {
	store *Store
	want  func(name string, limit bool) bool
	seen  map[string]struct{} // names; SCAN may tell a key twice
	yield func(store.Lock, error) bool
}

// list reads all names of a server. It reports false if the caller wants no more.
func (l *lister) list(ctx context.Context, node rueidis.Client) (more bool, err error) {
	var names []string
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
		cursor = entry.Cursor
		for len(names) >= readAtOnce || cursor == 0 && len(names) > 0 {
			n := min(len(names), readAtOnce)
			if more, err := l.read(ctx, node, names[:n]); err != nil || !more {
				return more, err
			}
			names = names[n:]
		}
		if cursor == 0 {
			return true, nil
		}
	}
}

// scan looks at some keys of a server.
func (l *lister) scan(
	ctx context.Context, node rueidis.Client, cursor uint64,
) (rueidis.ScanEntry, error) {
	ctx, cancel := l.store.bounded(ctx)
	defer cancel()
	scan := node.B().Scan().Cursor(cursor).Match(pattern(l.store.codec.prefix)).Count(scanStep)
	entry, err := wire.Do(ctx, node, scan.Build()).AsScanEntry()
	if err != nil {
		err = l.store.codec.errors.wrap(opList, err)
	}
	return entry, err
}

// take reports whether a key is that of a name that is wanted, the first time.
func (l *lister) take(key string) (name string, ok bool) {
	name, ok = nameOfKey(l.store.codec.prefix, key)
	if !ok {
		return "", false
	}
	if plain, limit := store.CutLimit(name); l.want != nil && !l.want(plain, limit) {
		return "", false
	}
	if _, ok := l.seen[name]; ok {
		return "", false
	}
	l.seen[name] = struct{}{}
	return name, true
}

// read shows the caller some names, without those that have been freed meanwhile.
func (l *lister) read(
	ctx context.Context, node rueidis.Client, names []string,
) (more bool, err error) {
	all := make([]found, len(names))
	some := make([]*found, len(names))
	for i, name := range names {
		all[i] = newFound(l.store.codec.prefix, name)
		some[i] = &all[i]
	}
	if err := l.store.readAll(ctx, opList, node, some, nil); err != nil {
		return true, err
	}
	for i := range all {
		if all[i].isListed() && !l.yield(all[i].lock, nil) {
			return false, nil
		}
	}
	return true, nil
}
