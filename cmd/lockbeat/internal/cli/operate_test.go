package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
)

// shown is a command line of a page: in a console, or in the text.
var shown = regexp.MustCompile("(?m)^\\$ lockbeat (.+)$|`lockbeat ([^`\n]+)`")

// words are what a shell makes of a command line: quotes keep spaces together.
var words = regexp.MustCompile(`'[^']*'|\S+`)

// Each command line that the page for the person on call shows is one that this program takes.
func TestTheCommandsOfThePageExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/operate.md")
	require.NoError(t, err)
	lines := shown.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(lines), 5)
	for _, line := range lines {
		var args []string
		command, _, _ := strings.Cut(line[1]+line[2], " | ")
		for _, word := range words.FindAllString(command, -1) {
			args = append(args, strings.Trim(word, "'"))
		}
		root := cli.New()
		root.InitDefaultHelpCmd()
		cmd, rest, err := root.Find(args)
		require.NoError(t, err, line[0])
		require.True(t, cmd.HasParent(), "there is no such command: %s", line[0])
		require.NoError(t, cmd.ParseFlags(rest), line[0])
		assert.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line[0])
	}
}
