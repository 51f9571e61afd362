package locks_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// What ls prints of a name, show finds, with the quotes or without; but a name
// that is written so comes first.
func TestAQuotedNameIsFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", patience)
	for name, shown := range hostile {
		hold(t, k, name)
		bare := strings.TrimSuffix(strings.TrimPrefix(shown, `"`), `"`)
		for _, arg := range []string{name, shown, bare} {
			locks, _, _ := decode(t, s.ok(t, "show", arg, "--json", "--look", "0"))
			require.Len(t, locks, 1, "%q", arg)
			assert.Equal(t, renewer.HashName(name, nil), locks[0].Hash, "%q", arg)
		}
	}
	hold(t, k, `bell\a and\nline`)
	locks, _, _ := decode(t, s.ok(t, "show", `bell\a and\nline`, "--json", "--look", "0"))
	assert.Equal(t, `bell\a and\nline`, locks[0].Name)
	lease := hold(t, k, "to\nbreak")
	s.ok(t, breakArgs(lease, `to\nbreak`)...)
	assert.Equal(t, 66, s.run(t, "show", `no\nsuch`).status)
}

// One long name does not widen all lines of a table.
func TestALongNameDoesNotWidenThePipe(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", patience)
	hold(t, k, strings.Repeat("\x01", 500))
	hold(t, k, "a")
	for line := range strings.Lines(s.ok(t, "ls")) {
		assert.Less(t, len(line), 200)
	}
}

// The shell completes names, if a server is there, those that it need not
// quote.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", patience)
	for _, name := range []string{"order:1", "order:2", "order 3\n", "user:7"} {
		hold(t, k, name)
	}
	hold(t, k, "order:2", renewer.Request{Limit: three})
	complete := func(config string, args ...string) []string {
		r := site{config: config}.run(t, append([]string{"__complete", "--config", config}, args...)...)
		assert.Zero(t, r.status)
		assert.NotContains(t, r.stderr, "lockbeat:")
		names := strings.Split(r.stdout, "\n")
		return names[:len(names)-2] // behind them is what the shell is to do
	}
	assert.ElementsMatch(t, []string{"order:1", "order:2"}, complete(s.config, "show", "order"))
	assert.ElementsMatch(t, []string{"order:1", "order:2", "user:7"}, complete(s.config, "break", ""))
	assert.Empty(t, complete(s.config, "break", "user:7", ""))
	assert.Empty(t, complete(configFor(t, "redis://127.0.0.1:1"), "show", ""))
	assert.Empty(t, complete("/does/not/exist", "show", ""))
}
