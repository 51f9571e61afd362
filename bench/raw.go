package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// raw is the floor: rueidis alone, and redisstore's scripts called by name, with
// all arguments made beforehand. It has none of what makes a lock of them: no
// deadline, no wake-up, no clean-up, no token of its own for each acquisition.
type raw struct {
	client        rueidis.Client
	scripts       scripts
	ttl, fenceTTL string // ms
	holder        string
	free          string // what release.lua is told besides
	most          int    // keys of a renewal script
}

// rawLock is a lock's key and its owner token.
type rawLock struct{ lease, owner string }

func newRaw(ctx context.Context, addr, way string, ttl time.Duration) (*raw, error) {
	s, err := loadScripts()
	if err != nil {
		return nil, err
	}
	client, err := handClient(addr, way)
	if err != nil {
		return nil, err
	}
	if err := s.teach(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	node, _ := os.Hostname() // as the keeper does by default, so that the server stores as much
	return &raw{
		client: client, scripts: s,
		ttl: millis(ttl), fenceTTL: millis(redisstore.DefaultFenceTTL),
		holder: node + "\n" + strconv.Itoa(os.Getpid()) + "\n",
		free:   noLine + " " + millis(redisstore.DefaultFenceTTL) + "  " + markKey,
		most:   renewMost,
	}, nil
}

// newClient connects with the options that redisstore recommends.
func newClient(addr string, ttl time.Duration) (rueidis.Client, error) {
	option, err := clientOption(deployment{addr: addr}, ttl)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return client, nil
}

func clientOption(d deployment, ttl time.Duration) (rueidis.ClientOption, error) {
	return redisstore.ClientOption(rueidis.ClientOption{
		InitAddress:       []string{d.addr},
		ForceSingleClient: !d.cluster,
		ClientName:        d.client,
	}, ttl)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (r *raw) lock(name string, number int) rawLock {
	lease := redisstore.DefaultPrefix + "{" + name + "}"
	owner := strconv.Itoa(number)
	return rawLock{lease, strings.Repeat("-", renewer.OwnerLen-len(owner)) + owner}
}

// What keepers usually tell the scripts.
const (
	noLine  = "" // no lock has a line of waiters
	noLines = noLine + " 1 "
	noPlace = ""
	keepFor = "0" // a lock that is freed is free at once

	markKey = redisstore.DefaultPrefix + "{%}:mark" // the highest token granted on the server
)

func (r *raw) acquire(ctx context.Context, l *rawLock) error {
	b := r.client.B()
	fence, err := r.client.Do(ctx,
		b.Evalsha().Sha1(r.scripts.acquire.sha).Numkeys(1).Key(l.lease).
			Arg(r.ttl, r.fenceTTL, markKey, noLines, l.owner, noPlace, r.holder).Build()).AsInt64()
	if err != nil || fence <= 0 {
		return fmt.Errorf("raw: %s is not ours: %w", l.lease, err)
	}
	return nil
}

func (r *raw) release(ctx context.Context, l *rawLock) error {
	b := r.client.B()
	lost, err := r.client.Do(ctx, b.Evalsha().Sha1(r.scripts.release.sha).Numkeys(1).Key(l.lease).
		Arg(keepFor, r.free, l.owner).Build()).ToArray()
	if err != nil || len(lost) > 0 {
		return fmt.Errorf("raw: %s was not ours: %w", l.lease, err)
	}
	return nil
}

const (
	// renewMost is how many keys one renewal script of the floor gets.
	renewMost = 50
	// renewOurs is how many one of redisstore's does.
	renewOurs = 100
)

// renew sends one pipeline and returns how many of the leases were lost.
func (r *raw) renew(ctx context.Context, locks []rawLock) (lost int, err error) {
	var commands []rueidis.Completed
	for len(locks) > 0 {
		part := locks[:min(len(locks), r.most)]
		locks = locks[len(part):]
		keys := make([]string, len(part))
		args := make([]string, 1, 2+len(part))
		args[0] = r.ttl
		for i := range part {
			keys[i] = part[i].lease
			args = append(args, part[i].owner)
		}
		args = append(args, noLine)
		commands = append(commands,
			r.client.B().Evalsha().Sha1(r.scripts.renew.sha).Numkeys(int64(len(keys))).
				Key(keys...).Arg(args...).Build())
	}
	for _, reply := range r.client.DoMulti(ctx, commands...) {
		exceptions, err := reply.ToArray()
		if err != nil {
			return lost, fmt.Errorf("raw: renew: %w", err)
		}
		lost += len(exceptions)
	}
	return lost, nil
}
