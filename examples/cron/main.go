// Cron has a schedule on five nodes, each a process of its own, whose clocks differ. Each tick
// is run once. One node is killed in the middle of a run, and the next tick is run elsewhere.
//
//	go run ./examples/cron                             # needs nothing else: Redis runs inside the program
//	go run ./examples/cron -redis localhost:6379       # on your own server, which is left as it was found
//
// It prints who ran which tick, and who found it taken. The exit
// status is 1 if anything that it claims did not hold.
//
// What you would write yourself is in node.go. The rest kills, and looks on: story.go.
package main

import "github.com/lockbeat/lockbeat/examples/internal/stage"

func main() {
	stage.Child(act)
	stage.Run("cron", tell)
}
