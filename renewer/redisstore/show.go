package redisstore

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// mostPlaces bounds how many places are shown: see store.Lock.
	mostPlaces = 1000
	// mostHomes bounds how many homes of tasks are looked at.
	mostHomes = 100
)

// Show implements [store.Inspector].
func (s *Store) Show(ctx context.Context, name string) (store.Lock, error) {
	f := newFound(s.codec.prefix, name)
	f.waits = true // also if it is free
	v := queueView{of: &f}
	if err := s.readAll(ctx, opShow, s.serverOf(name), []*found{&f}, v.ask); err != nil {
		return store.Lock{}, err
	}
	l := s.newLooks(opShow)
	v.askMore(l)
	if err := l.send(ctx); err != nil {
		return store.Lock{}, err
	}
	v.complete()
	return f.lock, nil
}

// queueView reads who waits for a name: its line of places, and its lines of tasks.
type queueView struct {
	of      *found
	homes   []string
	numbers []uint64           // of the places
	inboxes []string           // of the places
	faces   map[string]*string // by inbox
}

// placeText is a place in a line: see tell.lua.
var placeText = regexp.MustCompile(`^(\d{1,20}) ([\w-]{1,64}) [1-9]\d?000$`)

// ask asks who stands in line, and where else tasks do.
func (v *queueView) ask(l *looks) {
	f := v.of
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + lineSuffix,
		args: []string{"0", strconv.Itoa(mostPlaces - 1), "WITHSCORES"},
		take: func(reply rueidis.RedisMessage, _ bool) {
			scores, _ := reply.AsZScores()
			for _, z := range scores {
				v.add(z)
			}
		},
	})
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + homesSuffix,
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
		Since: time.UnixMicro(int64(min(z.Score, maxExact))),
	})
}

// askMore asks how many tasks stand in line, and what the processes tell whose places do.
func (v *queueView) askMore(l *looks) {
	for _, home := range v.homes {
		l.count(v.of.tag, v.of.key+tasksSuffix+home, &v.of.lock.Tasks)
	}
	v.faces = make(map[string]*string)
	for _, inbox := range v.inboxes {
		if v.faces[inbox] == nil {
			v.faces[inbox] = new(string)
			l.text(inbox, faceKey(l.store.codec.prefix, inbox), maxFace, v.faces[inbox])
		}
	}
}

// complete says who waits at each place.
func (v *queueView) complete() {
	faces := make(map[string]face, len(v.faces))
	for inbox, text := range v.faces {
		faces[inbox] = readFace(*text)
	}
	for i := range v.of.lock.Places {
		p := &v.of.lock.Places[i]
		p.Holder, p.Version = faces[v.inboxes[i]].place(v.numbers[i])
	}
}
