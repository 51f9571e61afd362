package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// A server or a proxy that repeats what it was sent has the password in its
// answer.
func TestServersThatRepeatTheGreeting(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"-ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `%s`, \r\n",
		"-ERR bad request: HELLO 3 AUTH u %s\r\n",
		"-NOPROTO AUTH u %s\r\n", "-WRONGPASS bad: %s\r\n", "-LOADING bad: %s\r\n",
		"-ERR [\"HELLO\" \"3\" \"AUTH\" \"u\" \"%s\"]\r\n", "!44\r\nLOADING a\nlockbeat: forged line: %s\r\n",
	} {
		addr := answering(t, func(words []string) string {
			if words[0] == "PING" {
				return "+PONG\r\n"
			}
			return fmt.Sprintf(answer, sesame)
		})
		for _, end := range []string{"", "?cluster=true", "?sentinel_master=m"} {
			d, err := redisstore.FromURL("redis://u:" + sesame + "@" + addr + end)
			require.NoError(t, err)
			d.Option.Sentinel.Password = sesame
			_, err = redisstore.OpenEngine(t.Context(), d)
			require.Error(t, err, answer)
			shown := fmt.Sprintf("%v %+v %#v", err, err, err)
			assert.NotContains(t, shown, sesame, "%q%s", answer, end)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}
