package cli_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// shown is a command line of a page: in a console, or in the text.
var shown = regexp.MustCompile("(?m)^\\$ lockbeat (.+)$|`lockbeat ([^`\n]+)`")

// words are what a shell makes of a command line: quotes keep spaces together.
var words = regexp.MustCompile(`'[^']*'|\S+`)

// page is docs/operate.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operate.md")
	require.NoError(t, err)
	return string(text)
}

// commands are the command lines of a text, in their order, as a person types them who has another
// lock than the page's.
func commands(text, name string, token int64) (all [][]string) {
	for _, line := range shown.FindAllStringSubmatch(text, -1) {
		var args []string
		command, _, _ := strings.Cut(line[1]+line[2], " | ")
		for _, word := range words.FindAllString(command, -1) {
			word = strings.Trim(word, "'")
			switch {
			case word == "order:42":
				word = name
			case word == "sku:*":
				word = name + "*"
			case len(args) > 0 && args[len(args)-1] == "--hash":
				word = renewer.HashName(name, nil)
			case len(args) > 0 && args[len(args)-1] == "--token":
				word = strconv.FormatInt(token, 10)
			}
			args = append(args, word)
		}
		switch args[0] {
		case "top":
			args = append(args, "--every", "100ms")
		case "serve":
			args = append(args, "--listen", "127.0.0.1:0")
		}
		all = append(all, args)
	}
	return all
}

// aclOf is the rule that docs/redis.md prints for a user.
func aclOf(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/redis.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "\nACL SETUSER "+user+" ")
	require.True(t, found, user)
	rule = regexp.MustCompile("\n\n|\n```").Split(rule, 2)[0]
	return append([]string{"ACL", "SETUSER", user},
		strings.Fields(strings.Replace(rule, ">PASSWORD", ">secret", 1))...)
}

var serving = regexp.MustCompile(`http://\S+`)

// Each command line of the page for the person on call does what it says for
// the users that docs/redis.md makes for that, with its lines for them. What
// one may not do names the right.
//
//nolint:tparallel // what breaks a lease comes after what does not
func TestTheCommandsOfThePageWorkForItsUsers(t *testing.T) {
	t.Parallel()
	s := site{redistest.Start(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")}
	holder := s.start(t, "web-1", quick)
	lease := holder.hangs(t, "order:42", "fulfil")
	holder.waits(t, "order:42", 2)
	s.start(t, "web-2", quick).waits(t, "order:42", 1)
	holder.inLine(t, "order:42", 1)
	all := commands(page(t), "order:42", lease.Fence())
	require.Greater(t, len(all), 10)
	slices.SortFunc(all, slices.Compare)
	all = slices.CompactFunc(all, slices.Equal)
	does := func(t *testing.T, user, config string, args []string) {
		t.Helper()
		what := user + ": " + strings.Join(args, " ")
		var enough func(string) bool
		switch args[0] {
		case "top":
			enough = func(printed string) bool { return strings.Contains(printed, "web-1 pid ") }
		case "serve":
			enough = func(printed string) bool { return shows(t, serving.FindString(printed)) }
		}
		stdout, stderr, status := run(t, config, enough, args...)
		switch {
		case args[0] == "serve":
			assert.Zero(t, status, what)
		case args[0] == "doctor":
			assert.Equal(t, 2, status, what)
			assert.Regexp(t, `(?m)^FAIL +memory: maxmemory-policy allkeys-lru`, stdout, what)
			assert.Equal(t, 1, strings.Count(stdout, "FAIL"), stdout)
			mayWrite := strings.ReplaceAll(stdout, "unknown  writes: this user may not", "")
			assert.Equal(t, user == "breaks", mayWrite == stdout, what)
			assert.NotContains(t, mayWrite, "unknown", what)
			assert.NotContains(t, stdout, "nothing can be locked", what)
			assert.Empty(t, stderr, what)
		case args[0] == "break" && user == "looks":
			assert.Equal(t, 77, status, what)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			assert.Contains(t, stderr, "NOPERM", what)
			assert.Contains(t, stderr, "to break a lease needs +evalsha ", what)
			require.NoError(t, lease.Context().Err())
		case args[0] == "break":
			assert.Zero(t, status, what+stderr)
			assert.Regexp(t, `^order:42: the lease \d+ is broken\nweb-1 (.*\n)+after .*: (it is free`+
				`|its next owner has it: web-[12] .*)\n$`, stdout, what)
		default:
			assert.Zero(t, status, what+stderr)
			assert.Empty(t, stderr, what)
			assert.Contains(t, stdout, "order:42", what)
		}
	}
	configs, users := make(map[string]string), []string{"looks", "breaks"}
	for _, user := range users {
		require.NoError(t, s.Do(aclOf(t, user)...).Error())
		configs[user] = s.config(t, user+":secret@")
	}
	t.Run("what ends nothing", func(t *testing.T) {
		for _, user := range users {
			t.Run(user, func(t *testing.T) {
				t.Parallel()
				for _, args := range all {
					if args[0] != "break" {
						does(t, user, configs[user], args)
					}
				}
			})
		}
	})
	for _, user := range users {
		for _, args := range all {
			if args[0] == "break" {
				does(t, user, configs[user], args)
			}
		}
	}
	require.ErrorIs(t, lease.Err(), renewer.ErrLost, "it was broken")
}

// shows reports whether the page in a browser shows the lock.
func shows(t *testing.T, url string) bool {
	t.Helper()
	if url == "" {
		return false
	}
	r, err := http.Get(url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Body.Close()) }()
	return r.StatusCode == http.StatusOK
}
