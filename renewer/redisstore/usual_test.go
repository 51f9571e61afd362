package redisstore_test

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// The server's clock in these tests, which stands still.
const (
	clock     = "{'1795874761', '1234'}"
	clockText = "1795874761001234"
)

const (
	live, dead = "in-box_1", "nobody"
	inbox      = redisstore.DefaultPrefix + "{" + live + "}:inbox"
	here       = "node\n1\nop"
)

// ours is the place of owner a.
var ours = member(5, live, "a", 12*time.Second)

// trial is what a script finds on the server, and what it is given.
type trial struct {
	lease      string
	before     [][]string
	keys, args []string
}

// pick picks one of several, and the first of them as often as all others
// together.
func pick(r *rand.Rand, from ...string) string {
	return from[max(0, r.IntN(2*len(from)-2)-len(from)+2)]
}

// trialOf has something of everything beside a lock that owner a wants, or
// frees. Times to live end in 5 s, so that they are told apart by their tens
// however long the test takes.
func trialOf(r *rand.Rand, leases ...string) trial {
	lease, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "x")
	t := trial{lease: lease, keys: []string{lease}}
	put := func(key, value, ttl string) {
		switch value {
		case "": // none
		case "list":
			t.before = append(t.before, []string{"RPUSH", key, "x"})
		default:
			t.before = append(t.before, []string{"SET", key, value, "PX", ttl})
		}
	}
	put(lease, pick(r, append(leases, owner("a"), leaseOf("b"), leaseOf("b")+"\n+",
		"!"+leaseOf("a")[1:], leaseOf("a")+"\n\n+", leaseOf("b")+strings.Repeat("x", 300), "x", "list",
		owner("a")+"\n0\n1794000000000000\n"+here+"\n+")...),
		pick(r, "15000", "89000"))
	mark := pick(r, "1795874761001233", "", clockText,
		"1795874761001235", "1795874761011233", "1795874761011234", "1795874781001234",
		"1795874791001234",
		"9007199254740990", "9007199254740991", "17958747610x1233", "7", "00001795874761001235",
		"g1795874761001235", "list")
	own := pick(r, "", "7", "1795874761005000", "1795874769000000", "x", "list")
	if own != "" && mark != "list" {
		mark = "g" + cmp.Or(strings.TrimPrefix(mark, "g"), "0")
	}
	put(redisstore.MarkKey(redisstore.DefaultPrefix), mark, "45000")
	put(counter, own, "45000")
	put(lease+":broken:!"+owner("a")[1:], pick(r, "", "broken\nb\nwhy"), "45000")
	line := lease + ":waiters"
	if r.IntN(12) == 0 {
		put(line, "list", "")
		return t
	}
	for _, place := range []string{
		ours, member(6, live, "b", 12*time.Second), strings.Replace(
			member(9, live, "c", 12*time.Second), "\n", " \n", 1),
		member(7, dead, "d", time.Second), member(8, dead, "e", time.Second), "x",
	} {
		if r.IntN(3) == 0 {
			t.before = append(t.before, []string{
				"ZADD", line,
				pick(r, "7", clockText, "1795874762000000", "9007199254740991"), place,
			})
		}
	}
	return t
}

func leaseOf(letter string) string {
	return owner(letter) + "\n1795000000000000\n1794000000000000\n" + here
}

// aClaim is a trial of acquire.lua.
func aClaim(r *rand.Rand) trial {
	t := trialOf(r, "", leaseOf("a"), leaseOf("a")+"\n+")
	t.args = []string{
		"65000", "95000", redisstore.MarkKey(redisstore.DefaultPrefix),
		pick(r, "line", "") + " 75000 " + live,
		pick(r, owner("a"), owner("a"), owner("a"), "short"),
		pick(r, "", "+", " "+ours, "0 "+ours, "77 "+ours), here,
	}
	return t
}

// twoClaims is a trial of acquire.lua, for two locks: the other claim is
// refused.
func (t trial) twoClaims() trial {
	other := redisstore.LeaseKey(redisstore.DefaultPrefix, "y")
	t.before = append(t.before, []string{"SET", other, leaseOf("c") + "\n+"})
	t.keys = append(t.keys, other)
	t.args = append(t.args, owner("d"), "", here)
	return t
}

// aRelease is a trial of release.lua.
func aRelease(r *rand.Rand) trial {
	t := trialOf(r, leaseOf("a"), leaseOf("a")+"\n+", leaseOf("a")+"\n+", "")
	t.args = []string{
		pick(r, "0", "25000"),
		pick(r, "line", "") + " " + live + " 95000 " + redisstore.MarkKey(redisstore.DefaultPrefix),
		pick(r, owner("a"), owner("a")+" "+ours, owner("a")+" 5 "+live+" ", owner("a")[1:],
			strings.Repeat(" ", 22)),
	}
	return t
}

// stage is a server on which trials are played.
type stage struct {
	server
	turns, freed <-chan string
}

func newStage(t *testing.T) stage {
	_, s := startReal(t)
	lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "x")
	return stage{s, s.listen(t, inbox), s.listen(t, lease+":freed")}
}

// load has the server know a script, whose clock stands still.
func (s stage) load(t *testing.T, text string) (sha string) {
	t.Helper()
	text = strings.ReplaceAll(text, "redis.call('TIME')", clock)
	s.ok(t, "SCRIPT", "LOAD", text)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// plays returns what a script answers in a trial, what it leaves on the server,
// and what those who listen hear.
func (s stage) plays(t *testing.T, sha string, c trial) string {
	t.Helper()
	do := func(words ...string) rueidis.Completed { return s.admin.B().Arbitrary(words...).Build() }
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	left := []string{
		c.lease, c.lease + ":waiters", c.lease + ":fence", mark,
		c.lease + ":broken:!" + owner("a")[1:],
	}
	cmds := []rueidis.Completed{do("FLUSHALL")}
	for _, words := range c.before {
		cmds = append(cmds, do(words...))
	}
	call := append([]string{"EVALSHA", sha, strconv.Itoa(len(c.keys))}, c.keys...)
	cmds = append(cmds, do(append(call, c.args...)...))
	for _, key := range left {
		cmds = append(cmds, do("DUMP", key), do("PTTL", key))
	}
	cmds = append(cmds, do("PUBLISH", inbox, "end"), do("PUBLISH", c.lease+":freed", "end"))
	results := s.admin.DoMulti(t.Context(), cmds...)
	results = results[1+len(c.before):]

	answer, _ := results[0].ToMessage()
	if parts, err := answer.ToArray(); err == nil && len(c.keys) > 1 {
		answer = parts[0] // the other claim's is as always
	}
	told := "answers " + textOf(answer)
	for i, key := range left {
		value, _ := results[1+2*i].ToMessage()
		ttl, err := results[2+2*i].AsInt64()
		require.NoError(t, err)
		told += fmt.Sprintf("\n%s lives %d0 s: %s", key, ttl/10_000, textOf(value))
	}
	for m := <-s.turns; m != "end"; m = <-s.turns {
		told += "\ntold the inbox " + m
	}
	for m := <-s.freed; m != "end"; m = <-s.freed {
		told += "\ntold all"
	}
	return told
}

// textOf is an answer as text. A remaining time to live is told to 10 s, and an
// error without the script's name.
func textOf(m rueidis.RedisMessage) string {
	if err := m.Error(); err != nil {
		text, _, _ := strings.Cut(err.Error(), " script: ")
		return "error " + text
	}
	parts, err := m.ToArray()
	if err != nil {
		whole, _ := m.ToAny()
		return fmt.Sprintf("%q", fmt.Sprint(whole))
	}
	text := ""
	for i, part := range parts {
		if n, err := part.AsInt64(); i == 1 && len(parts) > 2 && err == nil && n > 0 {
			text += fmt.Sprintf(" %d0 s", n/10_000)
			continue
		}
		text += " " + textOf(part)
	}
	return "[" + text + " ]"
}

// What a script does in its usual cases is what it does in every case, only
// quicker: its answers, what it leaves on the server, and whom it tells. And
// each fault that is planted there is found.
func TestUsualCases(t *testing.T) {
	t.Parallel()
	const (
		one      = "if from == '' and #owner == 22 then"
		oneFreed = "if #KEYS == 1 and ARGV[1] == '0' then"
	)
	for name, c := range map[string]struct {
		file, usual string
		trial       func(r *rand.Rand) trial
		with        func(trial) trial // what the usual case is given
		faults      map[string]string
	}{
		"acquire": {
			"acquire.lua", one, aClaim, nil, map[string]string{
				one:                               "if from == '' then",
				"'NX', ":                          "",
				"and not there[3] and":            "and",
				"if mark and #mark == 16 and":     "if mark and",
				"string.find(mark, '^%d+$') then": "true then",
				"mark >= nowText then":            "mark > nowText then",
				"token < now + 10000 and":         "true and",
				"'SET', markKey, text, 'PX'":      "'SET', markKey, nowText, 'PX'",
				"return token\n":                  "return now\n",
			},
		},
		"acquire several": {
			"acquire.lua", one, aClaim, trial.twoClaims, map[string]string{
				"string.find(mark, '^%d+$') and tonumber(mark)\nmark": "tonumber(string.match(mark, '%d+'))" +
					"\nmark",
				"#from < 2 and #owner == 22 then": "#from < 2 then",
				"if mark >= now then":             "if mark > now then",
				"mark > now + 10000 and":          "false and",
			},
		},
		"release": {
			"release.lua", oneFreed, aRelease, nil, map[string]string{
				oneFreed:                              "if #KEYS == 1 then",
				"string.sub(value, 1, 22) == ARGV[3]": "string.sub(value, 2, 22) == ARGV[3]",
				"~= '\\n+'":                           "~= '\\n-'",
				"string.match(terms, '^%l*')":         "'line'",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			text := redisstore.ScriptText(c.file)
			require.Equal(t, 1, strings.Count(text, c.usual))
			rule := s.load(t, strings.Replace(text, c.usual, "if false then", 1))
			trials := make([]trial, suite.Size(1000, 20_000))
			wants := make([]string, len(trials))
			r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
			for i := range trials {
				trials[i] = c.trial(r)
				wants[i] = s.plays(t, rule, trials[i])
				if c.with != nil {
					trials[i] = c.with(trials[i])
				}
			}
			// differs is the first trial in which a script differs from the
			// rule.
			differs := func(text string) (one trial, want, got string) {
				sha := s.load(t, text)
				for i, one := range trials {
					if got := s.plays(t, sha, one); got != wants[i] {
						return one, wants[i], got
					}
				}
				return trial{}, "", ""
			}
			in, want, got := differs(text)
			require.Equal(t, want, got, "%q", in)
			for right, wrong := range c.faults {
				assert.Contains(t, text, right)
				_, want, got := differs(strings.Replace(text, right, wrong, 1))
				assert.NotEqual(t, want, got, "not found: %s", right)
			}
		})
	}
}
