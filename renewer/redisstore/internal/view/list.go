package view

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
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

const (
	// mostPlaces bounds how many places are shown: see store.Lock.
	mostPlaces = 1000
	// mostHomes bounds how many homes of tasks are looked at.
	mostHomes = 100
	// facesTimeout is how long Show waits for what other servers than the
	// lock's say of a place.
	facesTimeout = time.Second
)

// Show implements [store.Inspector].
func (v *View) Show(ctx context.Context, name string, limit bool) (store.Lock, error) {
	all := []found{newFound(v.prefix, contract.Name{Text: name, Limit: limit})}
	f := &all[0]
	f.waits = true // also if it is free
	q, l := queueView{of: f}, v.newLooks(refusal.OpShow)
	if err := v.readAll(ctx, l, v.sender.ServerOf(schema.SlotOf(name)), all, q.ask); err != nil {
		return store.Lock{}, err
	}
	for _, home := range q.homes {
		l.count(f.tag, f.key+schema.TasksSuffix+home, &f.lock.Tasks)
	}
	if err := l.send(ctx); err != nil {
		return store.Lock{}, err
	}
	q.showFaces(ctx, v.newLooks(refusal.OpShow))
	return f.lock, nil
}

// queueView reads who waits for a name: its line of places, and its lines of
// tasks.
type queueView struct {
	of      *found
	homes   []string
	numbers []uint64 // of the places
	inboxes []string // of the places
}

// placeText is a place in a line: see tell.lua.
var placeText = regexp.MustCompile(`^(\d{1,20}) ([\w-]{1,64}) ([1-9]\d?000$|[\w-]{22} \d+ ?\n)`)

// ask asks who stands in line, and where else tasks do.
func (q *queueView) ask(l *looks) {
	f := q.of
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + schema.LineSuffix,
		args: []string{"0", strconv.Itoa(mostPlaces - 1), "WITHSCORES"},
		take: func(reply rueidis.RedisMessage, _ bool) {
			scores, _ := reply.AsZScores()
			for _, z := range scores {
				q.add(z)
			}
		},
	})
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + schema.HomesSuffix,
		args: []string{"0", strconv.Itoa(mostHomes - 1)},
		take: func(reply rueidis.RedisMessage, _ bool) { q.homes, _ = reply.AsStrSlice() },
	})
}

// add adds a place, unless it is none of our making.
func (q *queueView) add(z rueidis.ZScore) {
	parts := placeText.FindStringSubmatch(z.Member)
	if parts == nil || z.Score <= 0 {
		return
	}
	number, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return
	}
	q.numbers, q.inboxes = append(q.numbers, number), append(q.inboxes, parts[2])
	q.of.lock.Places = append(q.of.lock.Places, store.Place{
		Since: time.UnixMicro(int64(min(z.Score, schema.MaxExact))),
	})
}

// showFaces says who waits at each place, of those whose processes tell. They
// may do so on other servers than the lock's, whose outage hides no more than
// that.
func (q *queueView) showFaces(ctx context.Context, l *looks) {
	texts := make(map[string]*string)
	for _, inbox := range q.inboxes {
		if texts[inbox] == nil {
			texts[inbox] = new(string)
			l.text(inbox, schema.FaceKey(l.view.prefix, inbox), maxFace, texts[inbox])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, facesTimeout)
	defer cancel()
	_ = l.send(ctx)
	faces := make(map[string]face, len(texts))
	for inbox, text := range texts {
		faces[inbox] = readFace(*text)
	}
	for i := range q.of.lock.Places {
		p := &q.of.lock.Places[i]
		p.Holder, p.Version = faces[q.inboxes[i]].place(q.numbers[i])
	}
}

// A place in a line names an inbox, and no process: see tell.lua. So that those
// who look see who waits, a process whose places have stood in line for a while
// keeps a key for its inbox, PREFIX{INBOX}:process. Its value is text: the
// version of this module, and then of each place its number, and node, pid and
// operation of who waits, a line each. If it can't be written, the process
// waits all the same.

const (
	faceTTL = time.Minute
	// maxFace is how long a value is at most, in bytes: 100 places take fewer.
	maxFace = 16 << 10
)

// ShowFace writes who waits in this process, whose inbox has an ID. It reports
// false if the server does not let us.
func (v *View) ShowFace(ctx context.Context, inbox string, places []line.Shown) (again bool) {
	var text strings.Builder
	text.WriteString(schema.Part(version()))
	for _, p := range places {
		text.WriteString(schema.Separator + strconv.FormatUint(p.Number, 10) +
			schema.Separator + p.Who)
	}
	var err error
	ctx, cancel := v.bounded(ctx)
	defer cancel()
	v.sender.SpreadCalls(ctx, nil, wire.Calls{
		N:      1,
		SlotOf: func(int) uint16 { return schema.SlotOf(inbox) },
		Build: func(int, bool) rueidis.Completed {
			return v.sender.Client.B().Set().Key(schema.FaceKey(v.prefix, inbox)).
				Value(text.String()).PxMilliseconds(faceTTL.Milliseconds()).Build()
		},
		Take: func(_ int, r rueidis.RedisResult) {
			if r.Error() != nil {
				err = v.errors.Wrap(refusal.OpShow, r.Error())
			}
		},
	})
	return !errors.Is(err, renewer.ErrRejected)
}

// version is that of this module in this program; "" if the program does not
// say.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const path = "github.com/lockbeat/lockbeat"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
})

// face is what a process tells of who waits in it.
type face struct {
	version string
	any     store.Holder // of a place that is not among these: without an operation
	of      map[uint64]store.Holder
}

// readFace reads the value of a face. Any user of the server may have written
// it.
func readFace(text string) (f face) {
	lines := strings.Split(text, schema.Separator)
	f.version, lines = schema.Part(lines[0]), lines[1:]
	f.of = make(map[uint64]store.Holder, len(lines)/4)
	for ; len(lines) >= 4; lines = lines[4:] {
		number, err := strconv.ParseUint(lines[0], 10, 64)
		if err != nil {
			break
		}
		h := store.Holder{Node: schema.Part(lines[1]), PID: schema.ReadPID(lines[2])}
		if len(f.of) == 0 {
			f.any = h
		}
		h.Operation = schema.Part(lines[3])
		f.of[number] = h
	}
	return f
}

// place is who waits at a place, and the version there.
func (f face) place(number uint64) (who store.Holder, version string) {
	if who, ok := f.of[number]; ok {
		return who, f.version
	}
	return f.any, f.version
}
