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
	return f.lock, nil
}

// queueView reads who waits for a name: its line of places, and its lines of tasks.
type queueView struct {
	of    *found
	homes []string
}

// placeText is a place in a line: see tell.lua.
var placeText = regexp.MustCompile(`^(\d{1,20}) ([\w-]{1,64}) [1-9]\d?000$`)

func (v *queueView) ask(l *looks) {
	f := v.of
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + lineSuffix,
		args: []string{"0", strconv.Itoa(mostPlaces - 1), "WITHSCORES"},
		take: func(reply rueidis.RedisMessage, _ bool) {
			scores, _ := reply.AsZScores()
			for _, z := range scores {
				if placeText.MatchString(z.Member) && z.Score > 0 {
					f.lock.Places = append(f.lock.Places, store.Place{
						Since: time.UnixMicro(int64(min(z.Score, maxExact))),
					})
				}
			}
		},
	})
	l.add(look{
		tag: f.tag, command: "ZRANGE", key: f.key + homesSuffix,
		args: []string{"0", strconv.Itoa(mostHomes - 1)},
		take: func(reply rueidis.RedisMessage, _ bool) { v.homes, _ = reply.AsStrSlice() },
	})
}

func (v *queueView) askMore(l *looks) {
	for _, home := range v.homes {
		l.count(v.of.tag, v.of.key+tasksSuffix+home, &v.of.lock.Tasks)
	}
}
