package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// secret is what no error may show.
const secret = "sesame-open"

// write makes a file with a mode that no umask changes, and returns its name.
func write(t *testing.T, mode os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// source has the variables of words NAME=value, and none of the process's.
func source(words ...string) connect.Source {
	return connect.Source{Lookup: func(name string) (string, bool) {
		for _, word := range words {
			if key, value, _ := strings.Cut(word, "="); key == name {
				return value, true
			}
		}
		return "", false
	}}
}

func TestFaultsOfTheFile(t *testing.T) {
	t.Parallel()
	const url = "LOCKBEAT_URL=redis://u:" + secret + "@127.0.0.1:1"
	for _, c := range []struct{ path, says string }{
		{"/does/not/exist", "no such file"},
		{write(t, 0o602, url), "others can write it"},
		{write(t, 0o644, url), "has a password in it"},
		{write(t, 0o600, secret), "line 1: has no VARIABLE=value"},
		{write(t, 0o600, "", "LOCKBEAT_ULR="+secret), "line 2: is not about a variable"},
		{write(t, 0o600, "LOCKBEAT_CONFIG="+secret), "line 1: is not about a variable"},
	} {
		_, err := connect.Open(connect.With(t.Context(), source("LOCKBEAT_CONFIG="+c.path)))
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, "LOCKBEAT_CONFIG: "+c.path)
		assert.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), secret)

		s := source()
		s.File = c.path
		_, err = connect.Dial(connect.With(t.Context(), s))
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, "--config: "+c.path)
	}
}

// The environment comes before the file, and the file before the default.
func TestTheFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", secret)
	s := source()
	s.File = write(t, 0o600, "# where", "", " LOCKBEAT_URL = \"redis://"+server.Addr()+"/3\"",
		"LOCKBEAT_PASSWORD_FILE="+write(t, 0o600, secret, ""), "LOCKBEAT_PREFIX=mine:")
	store, err := connect.OpenFor(connect.With(t.Context(), s), 5*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 5*time.Second, store.Engine().(contract.Tuned).LeastTTL())
	store.Close()
	d, err := connect.Dial(connect.With(t.Context(), s))
	require.NoError(t, err)
	assert.Equal(t, "mine:", d.Prefix)
	d.Client.Close()

	var warned string
	wrong := source("LOCKBEAT_PASSWORD_FILE=" + write(t, 0o604, "other-"+secret))
	wrong.File, wrong.Warn = s.File, func(text string) { warned = text }
	_, err = connect.Open(connect.With(t.Context(), wrong))
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "WRONGPASS")
	assert.Contains(t, warned, "LOCKBEAT_PASSWORD_FILE")
}

func TestWhere(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://u:" + secret + "@redis-1:6380":              "redis-1:6380, prefix lockbeat:",
		"redis://redis-1/3":                                  "redis-1:6379, database 3, prefix lockbeat:",
		"redis://s-1:26379,s-2:1,s-3:1?sentinel_master=main": "main by the Sentinel s-1:26379 and 2 more, prefix lockbeat:",
	} {
		where, err := connect.Where(connect.With(t.Context(), source("LOCKBEAT_URL="+url)))
		require.NoError(t, err)
		assert.Equal(t, want, where)
	}
	_, err := connect.Where(connect.With(t.Context(), source("LOCKBEAT_URL=x")))
	require.ErrorIs(t, err, renewer.ErrConfig)
}
