// Transfer moves money between accounts, each time under the locks of
// both, which the code that moves it never names.
//
//	go run ./examples/transfer                             # needs nothing else: Redis runs inside the program
//	go run ./examples/transfer -redis localhost:6379       # on your own server, which is left as it was found
//
// Four nodes make hundreds of transfers between a few accounts, from any to any. Whoever locks
// one account first and the other one then waits for somebody who does it the other way round,
// for ever; lockmw.Keys takes both or none. The exit status is 1 if a transfer is stuck, or if
// money is missing in the end. The same transfers without the locks show what they are for.
//
// What you would write yourself is in bank.go. The rest plays the crowd: story.go.
package main

import "github.com/lockbeat/lockbeat/examples/internal/stage"

func main() { stage.Run("transfer", tell) }
