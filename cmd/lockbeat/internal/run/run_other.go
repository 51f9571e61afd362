//go:build !unix

package run

import (
	"context"
	"io"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
)

// limits is what the help says of this system.
const limits = `
On this system it does not work: it needs process groups, as Unix has them.
`

func run(context.Context, options, []string, io.Writer) error {
	return exit.Usagef("run needs process groups, which this system does not have")
}
