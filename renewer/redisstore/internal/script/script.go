// Package script is what runs on the servers: our scripts in Lua, and how one
// is called. The head of each file in lua/ says what goes into it and what
// comes out.
//
// It owns the texts alone. What a script is asked, and what its answer means,
// is the matter of who calls it; how the call reaches a server is that of
// package wire.
package script

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is secured by it
	"embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// The scripts, by their files: of locks, of limits, of who breaks a lease or
// comes later, of records, and of lines of tasks.
var (
	//go:embed lua/*.lua
	files embed.FS

	Acquire = load("acquire.lua")
	Propose = load("propose.lua")
	Begin   = load("begin.lua")
	Renew   = load("renew.lua")
	Release = load("release.lua")
	Free    = load("free.lua")
	Probe   = load("probe.lua")

	SlotsAcquire = load("slots_acquire.lua")
	SlotsRenew   = load("slots_renew.lua")
	SlotsRelease = load("slots_release.lua")

	Break      = load("break.lua")
	SlotsBreak = load("slots_break.lua")
	Notice     = load("notice.lua")
	Newest     = load("newest.lua")

	Look  = load("look.lua")
	Write = load("write.lua")

	Arrive = load("arrive.lua")
	Next   = load("next.lua")
)

// Script is a Lua script: its text, and the name by which a server that has
// seen it knows it. They are made when they are first asked for: a program that
// imports this package may never call most.
type Script struct{ made func() (text, sha string) }

// load makes a script of a file, with the files that it includes.
func load(file string) Script {
	return Script{sync.OnceValues(func() (text, sha string) {
		var b strings.Builder
		include(&b, file)
		sum := sha1.Sum([]byte(b.String())) //nolint:gosec // as above
		return b.String(), hex.EncodeToString(sum[:])
	})}
}

// include writes a file, and in it, where it says so, others.
func include(to *strings.Builder, file string) {
	text, err := files.ReadFile("lua/" + file)
	if err != nil {
		panic(err) // it is not among the files of this package
	}
	for line := range strings.Lines(string(text)) {
		indent, other, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "-- include ")
		if ok {
			to.WriteString(indent)
			include(to, other)
		} else {
			to.WriteString(line)
		}
	}
}

// Command calls the script by name (EVALSHA), or else by its whole
// text (EVAL), which teaches it to the server.
//
// rueidis takes a command back once it is answered, so that each try needs a
// new one.
func (s Script) Command(
	b rueidis.Builder, whole bool, keys []string, args ...string,
) rueidis.Completed {
	n := int64(len(keys))
	text, sha := s.made()
	if whole {
		return b.Eval().Script(text).Numkeys(n).Key(keys...).Arg(args...).Build()
	}
	return b.Evalsha().Sha1(sha).Numkeys(n).Key(keys...).Arg(args...).Build()
}

// Called is how Command calls the script: by which command, and by which name.
func (s Script) Called(whole bool) (command, name string) {
	text, sha := s.made()
	if whole {
		return "EVAL", text
	}
	return "EVALSHA", sha
}

// The modes of tell.lua, but for "": a single server that lets
// waiters stand in line, and a cluster.
const (
	ModeLine  = "line"
	ModeShard = "shard"
)

// Asker makes calls of scripts of which each is about one name. Its methods may
// be called concurrently.
type Asker struct {
	Prefix  string
	Sender  *wire.Sender
	Through *wire.Windows // how much may be under way
	Errors  *refusal.Reader
}

// Call is one call of a script.
type Call struct {
	Script     Script
	Name       string // of the lock or limit that the keys are about
	Keys, Args []string
}

// Ask makes one call.
func (a *Asker) Ask(
	ctx context.Context, op string, call Call,
) (reply rueidis.RedisMessage, err error) {
	a.All(ctx, op, []Call{call}, func(_ int, r rueidis.RedisMessage, failed error) {
		reply, err = r, failed
	})
	return reply, err
}

// All makes several calls at once, and has the reply to each read, or why there
// is none. Several goroutines may read, for another i each.
func (a *Asker) All(
	ctx context.Context, op string, calls []Call,
	read func(i int, reply rueidis.RedisMessage, err error),
) {
	a.Sender.SpreadCalls(ctx, a.Through, wire.Calls{
		N:      len(calls),
		SlotOf: func(i int) uint16 { return schema.SlotOf(calls[i].Name) },
		Build: func(i int, whole bool) rueidis.Completed {
			c := &calls[i]
			return c.Script.Command(a.Sender.Client.B(), whole, c.Keys, c.Args...)
		},
		Take: func(i int, r rueidis.RedisResult) {
			reply, err := r.ToMessage()
			if err != nil {
				err = a.Errors.Wrap(op, err)
			}
			read(i, reply, err)
		},
	})
}
