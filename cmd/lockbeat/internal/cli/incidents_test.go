package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// incident is one that a person is called for at night. The page leads there by
// an alert or by a line of the log.
type incident struct {
	name   string
	server []string // settings
	// scene plays it about the lock order:42, in small, and returns what else
	// the command shows.
	scene func(t *testing.T, s site) (shows []string)
	// section is of docs/operate.md. Its first command is the one that is run,
	// as the user who looks, with more arguments for a test's sake. "": the
	// line of the log says it all.
	section string
	more    []string
	enough  func(printed string) bool
	shows   []string // of the command, as regular expressions
}

// quick is a TTL of which a heartbeat is heard soon.
const quick = 5 * time.Second

var incidents = []incident{
	{
		name: "an asynq task hangs", section: "Stuck",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "worker-1", quick)
			p.hangs(t, "order:42", "order:fulfil")
			s.start(t, "worker-2", quick).waits(t, "order:42", 1)
			p.inLine(t, "order:42", 1)
			p.logs(t, `msg="lock is still held"`, "operation=order:fulfil")
			return nil
		},
		shows: []string{
			`host +worker-1\n`, `operation +order:fulfil\n`, `waiting +1 process in line`,
			`renewed +yes`,
		},
	},
	{
		name: "a request hangs, and those behind it are refused", section: "Slow",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			p.hangs(t, "order:42", "POST /orders")
			p.waits(t, "order:42", 19)
			_, err := p.Acquire(t.Context(), renewer.Request{
				Name: "order:42", MaxWait: time.Millisecond,
			})
			require.ErrorIs(t, err, renewer.ErrBusy)
			p.logs(t, `msg="lock refused"`, "holder=", "held_for=")
			p.tellsOfCallers(t, "order:42", 19)
			return []string{`order:42 .* 19\n`}
		},
		shows: []string{`order:42 +web-1 pid \d+ \(POST /orders\) +\S+s `},
	},
	{
		name: "many wait for one that is slow", section: "Slow",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", patience)
			p.hangs(t, "quiet", "POST /quiet")
			p.hangs(t, "order:42", "POST /orders")
			s.start(t, "web-2", patience).waits(t, "order:42", 1)
			s.start(t, "web-3", patience).waits(t, "order:42", 1)
			p.inLine(t, "order:42", 2)
			return nil
		},
		shows: []string{`WAITING\norder:42 +web-1 pid \d+ .* 2\n`},
	},
	{
		name: "a lock is hot", section: "Hot",
		scene: func(t *testing.T, s site) []string {
			s.start(t, "web-1", patience).busy(t, "order:42")
			s.start(t, "web-2", patience).busy(t, "order:42")
			return nil
		},
		enough: func(printed string) bool {
			return strings.Contains(printed, " web-1 pid ") && strings.Contains(printed, " web-2 pid ")
		},
		shows: []string{`order:42 +web-1 pid `, `order:42 +web-2 pid `},
	},
	{
		name: "a lock was overwritten", section: "Lost",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			p.hangs(t, "order:42", "fulfil")
			require.NoError(t, s.Do("SET", "lockbeat:{order:42}", "x").Error())
			p.logs(t, `msg="lease lost"`, "reason=taken", "found=overwritten")
			return nil
		},
		shows: []string{`state +foreign: another program has written its key; delete that`},
	},
	{
		name: "another owner has the lock, and the former goes on", section: "Split",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			former := p.hangs(t, "order:42", "fulfil")
			require.NoError(t, s.Do("DEL", "lockbeat:{order:42}").Error())
			owner := s.start(t, "web-2", quick).hangs(t, "order:42", "refund")
			p.logs(t, `msg="lease lost"`, "reason=taken", "found=owner", "web-2 pid ")
			p.logs(t, `msg="operation runs on when others can have the lock"`,
				"fence="+strconv.FormatInt(former.Fence(), 10))
			assert.Less(t, former.Fence(), owner.Fence())
			return []string{`token +` + strconv.FormatInt(owner.Fence(), 10) + `\n`}
		},
		shows: []string{`host +web-2\n`, `operation +refund\n`},
	},
	{
		name: "a process is paused", section: "Stuck", more: []string{"--look", "200ms"},
		scene: func(t *testing.T, s site) []string {
			s.start(t, "web-1", quick).hangs(t, "order:42", "fulfil", renewer.Request{
				Manual: patience,
			})
			return nil
		},
		shows: []string{`host +web-1\n`, `renewed +not within`},
	},
	{
		name: "a process was paused, and wakes",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			p.hangs(t, "order:42", "fulfil", renewer.Request{Manual: time.Second})
			p.logs(t, `msg="lease lost"`, "reason=expired")
			return nil
		},
	},
	{
		name: "Redis evicts locks", section: "Evicted",
		server: []string{"--maxmemory", "8mb", "--maxmemory-policy", "volatile-lru"},
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			p.hangs(t, "order:42", "fulfil")
			for i := range 20 { // of 1 MB, until it refuses
				_ = s.Do("SETRANGE", fmt.Sprint("much ", i), "1000000", "x").Error()
			}
			p.logs(t, `msg="lease lost"`, "reason=taken", "found=deleted")
			return nil
		},
		shows: []string{
			`FAIL +memory: maxmemory-policy volatile-lru, .* used \(\d+ %\), \d+ keys evicted `,
		},
	},
	{
		name: "old processes were killed by a deploy", section: "Deploy",
		more: []string{"--look", "200ms"},
		scene: func(t *testing.T, s site) []string {
			s.start(t, "old", quick).hangs(t, "order:42", "fulfil", renewer.Request{
				Manual: patience,
			})
			s.start(t, "new", quick).waits(t, "order:42", 1)
			return nil
		},
		shows: []string{`host +old\n`, `ttl +\S+ left\n`, `renewed +not within`},
	},
	{
		name: "Redis has come back empty", section: "Restart",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", 2*quick)
			p.hangs(t, "order:42", "fulfil")
			require.NoError(t, s.Restart())
			require.NoError(t, s.Do(aclOf(t, "looks")...).Error())
			p.logs(t, `msg="lease lost"`, "reason=taken", "found=deleted")
			return nil
		},
		shows: []string{
			`WARN +persistence: no append-only file: a restart loses .*; it is up for [\d.]+m?s\n`,
		},
	},
	{
		name: "Redis is away", section: "Outage",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			p.hangs(t, "order:42", "fulfil")
			s.Kill()
			p.logs(t, `msg="leases not renewed yet"`)
			_, err := p.Acquire(t.Context(), renewer.Request{Name: "order:43", Try: true})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			p.logs(t, `msg="lock not acquired"`)
			return nil
		},
		shows: []string{`^FAIL +connection: .*no connection to 127\.0\.0\.1:\d+`},
	},
	{
		name: "who broke it?", section: "Who broke it?",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", patience)
			lease := p.hangs(t, "order:42", "fulfil")
			require.NoError(t, s.Do(aclOf(t, "breaks")...).Error())
			_, stderr, status := run(t, s.config(t, "breaks:secret@"), nil, "break", "order:42",
				"--token", strconv.FormatInt(lease.Fence(), 10), "--by", "ana", "--why", "hangs")
			require.Zero(t, status, stderr)
			p.logs(t, `msg="lease lost"`, "reason=broken", "it was broken by ana: hangs")
			return nil
		},
		shows: []string{`state +broken, `, `broken +by ana: hangs\n`},
	},
	{
		name: "two services use one name", section: "Stuck",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "billing-1", quick)
			p.hangs(t, "order:42", "invoice")
			s.start(t, "web-1", quick).waits(t, "order:42", 1)
			p.inLine(t, "order:42", 1)
			return nil
		},
		shows: []string{
			`host +billing-1\n`, `operation +invoice\n`, `waiting +1 process in line`,
		},
	},
	{
		name: "a limit is 0 by mistake",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			_, err := p.Acquire(t.Context(), renewer.Request{
				Name: "order:42", Limit: func() int { return 0 },
			})
			require.ErrorIs(t, err, renewer.ErrLimitClosed)
			p.logs(t, "level=WARN", `msg="limit is closed"`)
			return nil
		},
	},
	{
		name: "a prefix was changed between two deploys", section: "Apart",
		scene: func(t *testing.T, s site) []string {
			s.start(t, "old", quick).hangs(t, "order:42", "fulfil")
			s.start(t, "new", quick, redisstore.Prefix("prod:")).hangs(t, "order:42", "fulfil")
			return nil
		},
		shows: []string{`other prefixes: locks are taken under prod: \(some are held now\) as well`},
	},
	{
		name: "the clocks differ", section: "Apart", // which is nobody's fault
		scene: func(*testing.T, site) []string { return nil },
		shows: []string{`OK +clock: `},
	},
	{
		name: "a lock is held for 15 minutes", section: "Stuck",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "web-1", quick)
			lease := p.hangs(t, "order:42", "report")
			p.logs(t, `msg="lock is still held"`, "operation=report", "held=", "waiting=0")
			return []string{`token +` + strconv.FormatInt(lease.Fence(), 10) + `\n`}
		},
		shows: []string{`operation +report\n`, `since +.* UTC, for \S+s\n`, `renewed +yes`},
	},
	{
		name: "many tasks stand in line for one key", section: "Slow",
		scene: func(t *testing.T, s site) []string {
			p := s.start(t, "worker-1", quick)
			p.hangs(t, "order:42", "order:fulfil")
			line := p.store.Engine().(contract.Line)
			for i := range 50 {
				_, err := line.Arrive(t.Context(), contract.Arrival{
					Name: contract.Name{Text: "order:42"}, SlotTTL: time.Second,
					Task: contract.Task{Queue: "default", ID: strconv.Itoa(i)},
				})
				require.NoError(t, err)
			}
			return []string{`order:42 .* 50\n`}
		},
		shows: []string{`order:42 +worker-1 pid \d+ `},
	},
	// The log says at the first task that InLine was given another Redis, and
	// what to change: asynqmw's TestAnotherRedisThanTheServersIsToldOf.
}

// busy has a process take a lock and free it, again and again, until the test
// ends.
func (p process) busy(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			lease, err := p.Acquire(ctx, renewer.Request{Name: name})
			if err != nil {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			err = lease.Release(context.Background())
			if err != nil && !errors.Is(err, renewer.ErrUnavailable) {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		loop.Wait()
	})
}

// sectionOf is a part of the page.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(page(t), "\n## "+heading+"\n")
	require.True(t, found, heading)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// The first command that the page names for an incident shows its cause, to the
// user who looks.
func TestTheFirstCommandShowsTheCause(t *testing.T) {
	t.Parallel()
	for _, in := range incidents {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			s := site{redistest.Start(t, in.server...)}
			require.NoError(t, s.Do(aclOf(t, "looks")...).Error())
			shows := append(in.scene(t, s), in.shows...)
			if in.section == "" {
				return
			}
			named := commands(sectionOf(t, in.section), "order:42", 0)
			require.NotEmpty(t, named, "the section names no command")
			stdout, stderr, _ := run(t, s.config(t, "looks:secret@"), in.enough,
				append(named[0], in.more...)...)
			assert.Empty(t, stderr)
			for _, want := range shows {
				assert.Regexp(t, want, stdout)
			}
		})
	}
}
