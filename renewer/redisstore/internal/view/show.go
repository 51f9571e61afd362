package view

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

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
