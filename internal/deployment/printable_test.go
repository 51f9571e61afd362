package deployment_test

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/deployment"
)

// What a server says is one line without control bytes, and without the
// passwords that it was sent.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for said, shown := range map[string]string{
		"ERR all is well": "ERR all is well",
		"ERR unknown command `AUTH`, with args beginning with: `a` `b`": "ERR unknown command `AUTH`",
		"LOADING a\r\nlockbeat: forged\x1b[31m\u202e\x00\x9b\xff":       "LOADING a  lockbeat: forged [31m  ?",
		"ERR HELLO 3 AUTH u a\"b/c d":                                   "ERR HELLO 3 AUTH u …",
		`ERR ["AUTH" "a\"b/c d"]`:                                       `ERR ["AUTH" "…"]`,
		"ERR AUTH%20a%22b%2Fc%20d":                                      "ERR AUTH%20…",
		"ERR a\"b/c d and more":                                         "ERR … and more",
	} {
		assert.Equal(t, shown, deployment.Printable(said, "", `a"b/c d`), "%q", said)
	}
	option := rueidis.ClientOption{Password: "short"}
	option.Sentinel.Password = "short-and-more"
	option.AuthCredentialsFn = func(
		rueidis.AuthCredentialsContext,
	) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Password: "asked"}, nil
	}
	secrets := deployment.SecretsOf(&option)
	_, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	require.NoError(t, err)
	assert.Equal(t, "… … …", secrets.Printable("asked short-and-more short"))
	assert.True(t, secrets.In("asked"))
	assert.False(t, secrets.In("all is well"))
}

func FuzzPrintable(f *testing.F) {
	f.Add("ERR \x1b]0;title\x07", "x")
	f.Fuzz(func(t *testing.T, text, around string) {
		shown := deployment.Printable(around+secret+text, secret)
		assert.NotContains(t, shown, secret)
		assert.False(t, strings.ContainsAny(shown, "\n\r\x1b\u2028"), shown)
	})
}
