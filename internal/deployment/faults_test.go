package deployment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
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

// lookup has the variables of words NAME=value.
func lookup(words ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, word := range words {
			if key, value, _ := strings.Cut(word, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

// Each fault names the variable that it is about, all of them at once, and no
// secret.
func TestFaultsNameTheirVariable(t *testing.T) {
	t.Parallel()
	const url = "LOCKBEAT_URL=redis://u:" + secret + "@127.0.0.1:1"
	for _, c := range []struct {
		words []string
		named string // with commas between
	}{
		{[]string{"LOCKBEAT_URL=redis://u:" + secret + "%@h:1"}, "LOCKBEAT_URL"},
		{[]string{"LOCKBEAT_URL=" + secret}, "LOCKBEAT_URL"},
		{[]string{"LOCKBEAT_URL=redis://a,b"}, "LOCKBEAT_URL"},
		{[]string{url, "LOCKBEAT_CLUSTER=perhaps"}, "LOCKBEAT_CLUSTER"},
		{[]string{url + "/2", "LOCKBEAT_CLUSTER=true"}, "LOCKBEAT_URL"},
		{
			[]string{url, "LOCKBEAT_CLUSTER=true", "LOCKBEAT_SENTINEL_MASTER=m"},
			"LOCKBEAT_CLUSTER",
		},
		{[]string{url, "LOCKBEAT_SENTINEL_USER=u"}, "LOCKBEAT_SENTINEL_USER"},
		{
			[]string{url, "LOCKBEAT_TLS_CA=x", "LOCKBEAT_TLS_SERVER_NAME=x"},
			"LOCKBEAT_TLS_CA, LOCKBEAT_TLS_SERVER_NAME",
		},
		{
			[]string{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=/", "LOCKBEAT_TLS_KEY=x"},
			"LOCKBEAT_TLS_CA, LOCKBEAT_TLS_CERT",
		},
		{
			[]string{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=" + write(t, 0o600, secret)},
			"LOCKBEAT_TLS_CA",
		},
		{
			[]string{"LOCKBEAT_PASSWORD_FILE=" + write(t, 0o600, secret, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{
			[]string{"LOCKBEAT_PASSWORD_FILE=" + write(t, 0o620, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{[]string{"LOCKBEAT_PASSWORD_FILE=/does/not/exist"}, "LOCKBEAT_PASSWORD_FILE"},
		{
			[]string{url, "LOCKBEAT_PASSWORD_FILE=" + write(t, 0o600, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{[]string{url, "LOCKBEAT_PREFIX=none"}, "LOCKBEAT_PREFIX"},
		{[]string{url + "?cluster=true", "LOCKBEAT_CLUSTER=true"}, "LOCKBEAT_CLUSTER"},
		{[]string{url + "?cluster=perhaps"}, "LOCKBEAT_URL: cluster"},
		{[]string{url + "?cluster=true&sentinel_master=m"}, "LOCKBEAT_URL: cluster"},
	} {
		_, err := deployment.FromLookup(lookup(c.words...))
		require.ErrorIs(t, err, renewer.ErrConfig, c.words)
		for name := range strings.SplitSeq(c.named, ", ") {
			assert.ErrorContains(t, err, name+": ")
		}
		assert.NotContains(t, err.Error(), secret)
	}
}

func TestFaultsOfAURLNameNoVariable(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"":                              "the URL: begins neither",
		secret:                          "the URL: begins neither",
		"redis://u:" + secret + "%@h":   "the URL: has a user or a password that is not percent",
		"redis://u:" + secret + "#@h":   "%23 for #",
		"redis://h?" + secret:           "the URL: may have nothing behind the hosts but",
		"redis://h?cluster=" + secret:   "the URL: cluster: is neither true nor false",
		"redis://h?cluster=1&cluster=1": "the URL: may have nothing",
		"redis://h/1?cluster=true":      "the URL: names database 1",
		"redis://a,b":                   "?cluster=true or ?sentinel_master=name behind the hosts",
		"redis://a,b?cluster=false":     "the URL: has several hosts",
		"redis://h?cluster=true&sentinel_master=m": "the URL: cluster: is true and the URL: " +
			"sentinel_master is set",
	} {
		_, err := deployment.FromURL(url)
		require.ErrorIs(t, err, renewer.ErrConfig, url)
		assert.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), secret)
	}
}

// What nobody has set is the default, and so is what is empty.
func TestNothingSet(t *testing.T) {
	t.Parallel()
	s, err := deployment.FromLookup(lookup("LOCKBEAT_URL=", "LOCKBEAT_PREFIX="))
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1:6379"}, s.Option.InitAddress)
	assert.Empty(t, s.Prefix)
	assert.False(t, s.Option.ForceSingleClient, "the server is asked what it is")
}

func TestWhatAURLSays(t *testing.T) {
	t.Parallel()
	s, err := deployment.FromURL("rediss://u:p@a,b:1?sentinel_master=m&db=2")
	require.NoError(t, err)
	o := s.Option
	assert.Equal(t, []string{"a:26379", "b:1"}, o.InitAddress)
	assert.Equal(t, []any{"u", "p", 2, "m"},
		[]any{o.Username, o.Password, o.SelectDB, o.Sentinel.MasterSet})
	assert.Same(t, o.TLSConfig, o.Sentinel.TLSConfig)
	assert.False(t, s.Cluster)

	s, err = deployment.FromURL("redis://a,b?cluster=true")
	require.NoError(t, err)
	assert.True(t, s.Cluster)

	s, err = deployment.FromURL("redis://a?cluster=false")
	require.NoError(t, err)
	assert.True(t, s.Option.ForceSingleClient)
}

// A file with a password that all can read works, and is warned of.
func TestAPasswordThatAllCanRead(t *testing.T) {
	t.Parallel()
	path := write(t, 0o604, secret)
	s, err := deployment.FromLookup(lookup("LOCKBEAT_PASSWORD_FILE=" + path))
	require.NoError(t, err)
	assert.Equal(t, secret, s.Option.Password)
	assert.Equal(t, []string{"LOCKBEAT_PASSWORD_FILE: everybody can read " + path + "; chmod 600"},
		s.Warnings)
}

// Inside a container the file of a secret belongs to the user that has it
// outside.
func TestAPasswordOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("root alone can give a file away")
	}
	path := write(t, 0o600, secret)
	require.NoError(t, os.Chown(path, 12345, -1))
	s, err := deployment.FromLookup(lookup("LOCKBEAT_PASSWORD_FILE=" + path))
	require.NoError(t, err)
	assert.Equal(t, secret, s.Option.Password)
	require.Len(t, s.Warnings, 1)
	assert.Contains(t, s.Warnings[0], "belongs to another user")

	_, _, err = deployment.ReadFile(path)
	require.ErrorContains(t, err, "belongs to another user")
}

// A file with certificates or a key that others can write is refused: who
// writes it chooses the server. So is a password's.
func TestFilesThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	path := write(t, 0o666, secret)
	for _, words := range [][]string{
		{"LOCKBEAT_PASSWORD_FILE=" + path},
		{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=" + path},
		{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CERT=" + path, "LOCKBEAT_TLS_KEY=" + path},
	} {
		_, err := deployment.FromLookup(lookup(words...))
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, path+": others can write it; chmod go-w it")
	}
	_, _, err := deployment.ReadPassword(path)
	require.ErrorContains(t, err, "others can write it")
	password, warning, err := deployment.ReadPassword(write(t, 0o604, secret))
	require.NoError(t, err)
	assert.Equal(t, secret, password)
	assert.Contains(t, warning, "everybody can read ")
}

// A secret in a variable that wants something else is not shown.
func TestSecretsInTheWrongVariable(t *testing.T) {
	t.Parallel()
	for _, value := range []string{secret, "redis://u:" + secret + "@h:1", "aB/" + secret + "="} {
		for _, v := range deployment.Variables() {
			for _, url := range []string{"redis://h", "rediss://h?sentinel_master=m"} {
				words := []string{v.Name + "=" + value, "LOCKBEAT_URL=" + url}
				_, err := deployment.FromLookup(lookup(words...))
				if err != nil {
					assert.NotContains(t, err.Error(), secret, "%v", words)
				}
			}
		}
	}
}

// A file that never ends, such as a device, does not take all memory.
func TestAFileThatIsTooLong(t *testing.T) {
	t.Parallel()
	path := write(t, 0o600, "")
	require.NoError(t, os.Truncate(path, 100<<20))
	for _, words := range [][]string{
		{"LOCKBEAT_PASSWORD_FILE=" + path},
		{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=" + path},
		{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CERT=" + path, "LOCKBEAT_TLS_KEY=/"},
	} {
		_, err := deployment.FromLookup(lookup(words...))
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, path+": has more than ")
	}
}

// The page has all variables, in the words of the command's help; FromEnv's
// comment has them, too.
func TestThePageHasTheVariables(t *testing.T) {
	t.Parallel()
	comment, err := os.ReadFile("../../renewer/redisstore/open.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/setup.md")
	require.NoError(t, err)
	var table strings.Builder
	for _, v := range deployment.Variables() {
		assert.Contains(t, string(comment), "//\t"+v.Name+" ")
		table.WriteString("| `" + v.Name + "` | " + v.What + " |\n")
	}
	assert.Contains(t, string(page), table.String())
}
