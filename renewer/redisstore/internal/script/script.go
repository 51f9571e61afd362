// Package script is what runs on the servers: our scripts in Lua, and how one
// is called. The head of each file in lua/ says what goes into it and what
// comes out.
//
// It owns the texts alone. What a script is asked, and what its answer means,
// is the matter of who calls it; how the call reaches a server is that of
// package wire.
package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is secured by it
	"embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/redis/rueidis"
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
