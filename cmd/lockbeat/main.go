// Command lockbeat runs commands under a distributed lock. `lockbeat help`
// lists what it can do, and README.md beside this file is one page about it.
package main

import (
	"os"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
