package redisstore

import (
	"context"
	"errors"
	"regexp"
	"runtime/debug"
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

const (
	// mostPlaces bounds how many places are shown: see store.Lock.
	mostPlaces = 1000
	// mostHomes bounds how many homes of tasks are looked at.
	mostHomes = 100
	// facesTimeout is how long Show waits for what other servers than the lock's say of a place.
	facesTimeout = time.Second
)

// Show implements [store.Inspector].
func (s *engine) Show(ctx context.Context, name string, limit bool) (store.Lock, error) {
	all := []found{newFound(s.codec.prefix, contract.Name{Text: name, Limit: limit})}
	f := &all[0]
	f.waits = true // also if it is free
	v, l := queueView{of: f}, s.newLooks(refusal.OpShow)
	if err := s.readAll(ctx, l, s.serverOf(name), all, v.ask); err != nil {
		return store.Lock{}, err
	}
	for _, home := range v.homes {
		l.count(f.tag, f.key+schema.TasksSuffix+home, &f.lock.Tasks)
	}
	if err := l.send(ctx); err != nil {
		return store.Lock{}, err
	}
	v.showFaces(ctx, s.newLooks(refusal.OpShow))
	return f.lock, nil
}

// queueView reads who waits for a name: its line of places, and its lines of tasks.
type queueView struct {
	of      *found
	homes   []string
	numbers []uint64 // of the places
	inboxes []string // of the places
}

// placeText is a place in a line: see tell.lua.
var placeText = regexp.MustCompile(`^(\d{1,20}) ([\w-]{1,64}) [1-9]\d?000$`)

// ask asks who stands in line, and where else tasks do.
func (v *queueView) ask(l *looks) {
	f := v.of
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + schema.LineSuffix,
		args: []string{"0", strconv.Itoa(mostPlaces - 1), "WITHSCORES"},
		take: func(reply rueidis.RedisMessage, _ bool) {
			scores, _ := reply.AsZScores()
			for _, z := range scores {
				v.add(z)
			}
		},
	})
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + schema.HomesSuffix,
		args: []string{"0", strconv.Itoa(mostHomes - 1)},
		take: func(reply rueidis.RedisMessage, _ bool) { v.homes, _ = reply.AsStrSlice() },
	})
}

// add adds a place, unless it is none of our making.
func (v *queueView) add(z rueidis.ZScore) {
	parts := placeText.FindStringSubmatch(z.Member)
	if parts == nil || z.Score <= 0 {
		return
	}
	number, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return
	}
	v.numbers, v.inboxes = append(v.numbers, number), append(v.inboxes, parts[2])
	v.of.lock.Places = append(v.of.lock.Places, store.Place{
		Since: time.UnixMicro(int64(min(z.Score, schema.MaxExact))),
	})
}

// showFaces says who waits at each place, of those whose processes tell. They may do so on other
// servers than the lock's, whose outage hides no more than that.
func (v *queueView) showFaces(ctx context.Context, l *looks) {
	texts := make(map[string]*string)
	for _, inbox := range v.inboxes {
		if texts[inbox] == nil {
			texts[inbox] = new(string)
			l.text(inbox, schema.FaceKey(l.store.codec.prefix, inbox), maxFace, texts[inbox])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, facesTimeout)
	defer cancel()
	_ = l.send(ctx)
	faces := make(map[string]face, len(texts))
	for inbox, text := range texts {
		faces[inbox] = readFace(*text)
	}
	for i := range v.of.lock.Places {
		p := &v.of.lock.Places[i]
		p.Holder, p.Version = faces[v.inboxes[i]].place(v.numbers[i])
	}
}

// A place in a line names an inbox, and no process: see tell.lua. So that those who look see who
// waits, a process whose places have stood in line for a while keeps a key for its inbox,
// PREFIX{INBOX}:process. Its value is text: the version of this module, and then of each place its
// number, and node, pid and operation of who waits, a line each. If it can't be written, the
// process waits all the same.

const (
	faceTTL = time.Minute
	// maxFace is how long a value is at most, in bytes: 100 places take fewer.
	maxFace = 16 << 10
)

// showFace writes who waits in this process. It reports false if the server does not let us.
func (s *engine) showFace(places []line.Shown) (again bool) {
	var text strings.Builder
	text.WriteString(schema.Part(version()))
	for _, p := range places {
		text.WriteString(schema.Separator + strconv.FormatUint(p.Number, 10) +
			schema.Separator + p.Who)
	}
	todo := wire.Calls{N: 1}
	todo.SlotOf = func(int) uint16 { return schema.SlotOf(s.line.ID()) }
	todo.Build = func(int, bool) rueidis.Completed {
		return s.codec.builder().Set().Key(schema.FaceKey(s.codec.prefix, s.line.ID())).
			Value(text.String()).PxMilliseconds(faceTTL.Milliseconds()).Build()
	}
	var err error
	todo.Take = func(_ int, r rueidis.RedisResult) {
		if r.Error() != nil {
			err = s.codec.errors.Wrap(refusal.OpShow, r.Error())
		}
	}
	ctx, cancel := context.WithTimeout(s.life, s.settle)
	defer cancel()
	s.sender.SpreadCalls(ctx, nil, todo)
	return !errors.Is(err, renewer.ErrRejected)
}

// version is that of this module in this program; "" if the program does not say.
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

// readFace reads the value of a face. Any user of the server may have written it.
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
