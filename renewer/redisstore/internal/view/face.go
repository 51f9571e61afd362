package view

import (
	"context"
	"errors"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

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
